import type { Clock } from '#clock/clock';
import { idKey, modernVersion, readMessage, textAt, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import { UpstreamError, type Deliver, type Upstream } from '#transport/upstream';
import type { Step } from './step.ts';

export type IdleTimeoutPorts = {
  /** How long a request may wait while the server sends nothing; 0: no limit. */
  idleTimeoutSeconds: number;
  /** Whether a page waits for a person to sign in. Requests do not time out meanwhile. */
  isSigningIn?: () => boolean;
  clock: Clock;
  log: Log;
};

const cancelTimeoutMs = 5_000;

/** The number of checks per idle timeout. A request ends after 1 to 1.25 times the timeout. */
const checks = 4;

/** A request that waits for its answer. */
type Waiting = {
  /** Checks since the last message of the server; -1 if the next check comes too early to count. */
  silentChecks: number;
  isLate: boolean;
  /** Unset when the request ends, because V8 may keep deleted entries of a `Set` for a long time; see `BriefMap`. */
  ending: AbortController | undefined;
};

/**
 * Gives up a request and cancels it at the server if the server has sent nothing for too long. Any message for this request
 * restarts the time, and so does any message on a stream of no particular request, because it may report progress. The time
 * does not run out while the server waits for an answer from the assistant. Subscriptions may stay silent.
 *
 * MCP 2025-11-25 lifecycle, "Timeouts"
 */
export function idleTimeout(ports: IdleTimeoutPorts): Step {
  const name = 'idle timeout';
  return ports.idleTimeoutSeconds === 0
    ? { name, on: () => ({}) }
    : { name, on: (next) => new TimedUpstream(next, ports) };
}

class TimedUpstream implements Pick<Upstream, 'send' | 'listen'> {
  readonly #next: Upstream;
  readonly #ports: IdleTimeoutPorts;
  /** Requests of the server that the assistant has not answered. */
  readonly #pending = new Set<string>();
  readonly #waiting = new Set<Waiting>();
  #isWatching = false;

  constructor(next: Upstream, ports: IdleTimeoutPorts) {
    this.#next = next;
    this.#ports = ports;
  }

  send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    if (message.kind === 'request' && message.method !== 'subscriptions/listen')
      return this.#request(message, deliver, signal);
    if (message.kind === 'response') this.#pending.delete(idKey(message.id ?? 'null'));
    return this.#next.send(message, this.#restarting(deliver), signal);
  }

  async listen(deliver: Deliver, signal: AbortSignal): Promise<void> {
    return this.#next.listen(this.#restarting(deliver), signal);
  }

  async #request(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const { idleTimeoutSeconds } = this.#ports;
    const ending = new AbortController();
    const end = () => ending.abort();
    signal.addEventListener('abort', end, { once: true });
    // Only the first request starts the timer. For others the next check comes earlier, so it does not count.
    const state: Waiting = { silentChecks: this.#isWatching ? -1 : 0, isLate: false, ending };
    this.#waiting.add(state);
    if (!this.#isWatching) void this.#watch();
    const take: Deliver = async (answer) => {
      if (state.isLate) return;
      state.silentChecks = -1;
      this.#note(answer);
      await deliver(answer);
    };
    try {
      await this.#next.send(message, take, ending.signal);
    } catch (error) {
      if (!state.isLate || signal.aborted) throw error;
      void this.#cancel(message);
      throw new UpstreamError('no_answer', `the server sent nothing for ${idleTimeoutSeconds} s`, {
        ...(message.method === 'tools/call' && { outcomeUnknown: true }),
        cause: error,
      });
    } finally {
      this.#waiting.delete(state);
      state.ending = undefined;
      signal.removeEventListener('abort', end);
    }
  }

  /** One timer for all requests: one for each would cost more than all else that the proxy does for a call. */
  async #watch(): Promise<void> {
    const { idleTimeoutSeconds, isSigningIn, clock } = this.#ports;
    this.#isWatching = true;
    while (this.#waiting.size > 0) {
      await clock.sleep((idleTimeoutSeconds * 1_000) / checks);
      const isPaused = this.#pending.size > 0 || isSigningIn?.();
      for (const open of this.#waiting) {
        open.silentChecks = isPaused ? 0 : open.silentChecks + 1;
        if (open.silentChecks < checks) continue;
        open.isLate = true;
        this.#waiting.delete(open);
        open.ending?.abort();
      }
    }
    this.#isWatching = false;
  }

  /** Restarts the time of all requests at each message. */
  #restarting(deliver: Deliver): Deliver {
    return (message) => {
      for (const open of this.#waiting) open.silentChecks = -1;
      this.#note(message);
      return deliver(message);
    };
  }

  #note(message: Message): void {
    if (message.kind === 'request') this.#pending.add(idKey(message.id ?? 'null'));
    else if (message.method === 'notifications/cancelled')
      this.#pending.delete(idKey(textAt(message, 'params', 'requestId') ?? 'null'));
  }

  /** Cancels the request at a legacy server. A modern server sees the closed stream. */
  async #cancel(message: Message): Promise<void> {
    const { id = 'null', method } = message;
    if (modernVersion(message) !== undefined || method === 'initialize') return;
    const { idleTimeoutSeconds, log } = this.#ports;
    const reason = `"reason":"no answer in ${idleTimeoutSeconds} s"`;
    const text = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${id},${reason}}}`;
    await this.#next
      .send(readMessage(Buffer.from(text)), async () => {}, AbortSignal.timeout(cancelTimeoutMs))
      .catch((error: unknown) => log.debug('request not cancelled', { reason: String(error) }));
  }
}
