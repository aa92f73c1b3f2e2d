import type { Clock } from '#clock/clock';
import { idKey, modernVersion, readMessage, textAt, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import { UpstreamError, type Deliver, type Upstream } from '#transport/upstream';
import type { Step } from './step.ts';

export type IdleTimeoutPorts = {
  /** How long a request may wait while the server sends nothing; 0: for ever. */
  idleTimeoutSeconds: number;
  /** Whether a page waits for a person to sign in: requests wait as long. */
  isSigningIn?: () => boolean;
  clock: Clock;
  log: Log;
};

const cancelTimeoutMs = 5_000;

/**
 * Gives a request up when the server has sent nothing for too long, and cancels it at the server. What the server sends for
 * this request restarts the time, and so does what it sends on another stream, where progress may come too. While it waits
 * for an answer of the assistant, the time does not run out. Subscriptions may stay silent.
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
  const questions = new Set<string>();
  /** Messages that the server sent otherwise than for one request. */
  let unrelated = 0;

  function note(message: Message): void {
    if (message.kind === 'request') questions.add(idKey(message.id ?? 'null'));
    else if (message.method === 'notifications/cancelled')
      questions.delete(idKey(textAt(message, 'params', 'requestId') ?? 'null'));
  }

  function noting(deliver: Deliver): Deliver {
    return (message) => {
      unrelated += 1;
      note(message);
      return deliver(message);
    };
  }

  /** A server of the modern era sees the closed stream. */
  async function cancel(message: Message): Promise<void> {
    const { id = 'null', method } = message;
    if (modernVersion(message) !== undefined || method === 'initialize') return;
    const reason = `"reason":"no answer in ${idleTimeoutSeconds} s"`;
    const text = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${id},${reason}}}`;
    await next
      .send(readMessage(Buffer.from(text)), async () => {}, AbortSignal.timeout(cancelTimeoutMs))
      .catch((error: unknown) => log.debug('request not cancelled', { reason: String(error) }));
  }

  async function request(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const ending = new AbortController();
    const over = new AbortController();
    const end = () => ending.abort();
    signal.addEventListener('abort', end, { once: true });
    let received = 0;
    let isLate = false;

    async function watch(): Promise<void> {
      for (let before = -1; before !== received + unrelated && !over.signal.aborted;) {
        before = received + unrelated;
        await clock.sleep(idleTimeoutSeconds * 1_000, over.signal);
        if (questions.size > 0 || isSigningIn?.()) before = -1;
      }
      if (over.signal.aborted) return;
      isLate = true;
      end();
    }

    void watch();
    const take: Deliver = async (answer) => {
      received += 1;
      if (isLate) return;
      note(answer);
      await deliver(answer);
    };
    try {
      await next.send(message, take, ending.signal);
    } catch (error) {
      if (!isLate || signal.aborted) throw error;
      void cancel(message);
      throw new UpstreamError('no_answer', `the server said nothing for ${idleTimeoutSeconds} s`, {
        ...(message.method === 'tools/call' && { outcomeUnknown: true }),
        cause: error,
      });
    } finally {
      over.abort();
      signal.removeEventListener('abort', end);
    }
  }

  return {
    send(message, deliver, signal) {
      if (message.kind === 'request' && message.method !== 'subscriptions/listen')
        return request(message, deliver, signal);
      if (message.kind === 'response') questions.delete(idKey(message.id ?? 'null'));
      return next.send(message, noting(deliver), signal);
    },
    listen: async (deliver, signal) => next.listen(noting(deliver), signal),
  };
}
