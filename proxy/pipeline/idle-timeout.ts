import type { Clock } from '#clock/clock';
import { idKey, modernVersion, readMessage, textAt, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import { UpstreamError, type Deliver, type Upstream } from '#transport/upstream';
import type { Step } from './step.ts';

export type IdleTimeoutPorts = {
  /** How long a request may wait while the server sends nothing; 0: no limit. */
  idleTimeoutSeconds: number;
  /** Whether a page waits for a person to sign in: requests wait as long. */
  isSigningIn?: () => boolean;
  clock: Clock;
  log: Log;
};

const cancelTimeoutMs = 5_000;

/** Checks per idle timeout: a request ends after one to one and a quarter of the timeout. */
const checks = 4;

/** A request that waits for its answer. */
type Waiting = {
  /** Looks since the server was last heard. */
  silent: number;
  isLate: boolean;
  ending: AbortController;
};

/**
 * Gives up a request and cancels it at the server if the server has sent nothing for too long. Any message for this request
 * restarts the time, and so does any message on another stream, which may report progress. The time does not run out while
 * the server waits for an answer of the assistant. Subscriptions may stay silent.
 *
 * MCP 2025-11-25 lifecycle, "Timeouts"
 */
export function idleTimeout(ports: IdleTimeoutPorts): Step {
  const name = 'idle timeout';
  return ports.idleTimeoutSeconds === 0
    ? { name, on: () => ({}) }
    : { name, on: (next) => limited(next, ports) };
}

function limited(
  next: Upstream,
  { idleTimeoutSeconds, isSigningIn, clock, log }: IdleTimeoutPorts,
): Pick<Upstream, 'send' | 'listen'> {
  /** Requests of the server that the assistant has not answered. */
  const pending = new Set<string>();
  const waiting = new Set<Waiting>();
  let isWatching = false;

  function note(message: Message): void {
    if (message.kind === 'request') pending.add(idKey(message.id ?? 'null'));
    else if (message.method === 'notifications/cancelled')
      pending.delete(idKey(textAt(message, 'params', 'requestId') ?? 'null'));
  }

  function noting(deliver: Deliver): Deliver {
    return (message) => {
      for (const open of waiting) open.silent = -1;
      note(message);
      return deliver(message);
    };
  }

  /** Cancels at a legacy server; a modern one sees the closed stream. */
  async function cancel(message: Message): Promise<void> {
    const { id = 'null', method } = message;
    if (modernVersion(message) !== undefined || method === 'initialize') return;
    const reason = `"reason":"no answer in ${idleTimeoutSeconds} s"`;
    const text = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${id},${reason}}}`;
    await next
      .send(readMessage(Buffer.from(text)), async () => {}, AbortSignal.timeout(cancelTimeoutMs))
      .catch((error: unknown) => log.debug('request not cancelled', { reason: String(error) }));
  }

  /** One timer for all requests: one for each would cost more than all else that the proxy does for a call. */
  async function watch(): Promise<void> {
    isWatching = true;
    while (waiting.size > 0) {
      await clock.sleep((idleTimeoutSeconds * 1_000) / checks);
      const isPaused = pending.size > 0 || isSigningIn?.();
      for (const open of waiting) {
        open.silent = isPaused ? 0 : open.silent + 1;
        if (open.silent < checks) continue;
        open.isLate = true;
        waiting.delete(open);
        open.ending.abort();
      }
    }
    isWatching = false;
  }

  async function request(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const ending = new AbortController();
    const end = () => ending.abort();
    signal.addEventListener('abort', end, { once: true });
    // The time to the next look is shorter for all but the first.
    const state: Waiting = { silent: isWatching ? -1 : 0, isLate: false, ending };
    waiting.add(state);
    if (!isWatching) void watch();
    const take: Deliver = async (answer) => {
      if (state.isLate) return;
      state.silent = -1;
      note(answer);
      await deliver(answer);
    };
    try {
      await next.send(message, take, ending.signal);
    } catch (error) {
      if (!state.isLate || signal.aborted) throw error;
      void cancel(message);
      throw new UpstreamError('no_answer', `the server sent nothing for ${idleTimeoutSeconds} s`, {
        ...(message.method === 'tools/call' && { outcomeUnknown: true }),
        cause: error,
      });
    } finally {
      waiting.delete(state);
      signal.removeEventListener('abort', end);
    }
  }

  return {
    send(message, deliver, signal) {
      if (message.kind === 'request' && message.method !== 'subscriptions/listen')
        return request(message, deliver, signal);
      if (message.kind === 'response') pending.delete(idKey(message.id ?? 'null'));
      return next.send(message, noting(deliver), signal);
    },
    listen: async (deliver, signal) => next.listen(noting(deliver), signal),
  };
}
