import type { Clock } from '#clock/clock';
import { modernVersion, readMessage, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import { UpstreamError, type Upstream } from './upstream.ts';

export type IdleTimeoutPorts = {
  /** How long a server may say nothing about a request: neither the answer nor progress. */
  idleTimeoutSeconds: number;
  clock: Clock;
  log: Log;
};

const tellingMs = 5_000;

/**
 * `upstream`, whose requests are given up when the server says nothing about them for too long; it is told so, as it
 * would be of a request that the assistant cancels. What only listens may stay silent.
 *
 * MCP 2025-11-25 lifecycle, "Timeouts"
 */
export function withIdleTimeout(upstream: Upstream, ports: IdleTimeoutPorts): Upstream {
  const { idleTimeoutSeconds, clock, log } = ports;

  /** A server of the modern era hears of it by the closed stream. */
  async function tell(message: Message): Promise<void> {
    const { id = 'null', method } = message;
    if (modernVersion(message) !== undefined || method === 'initialize') return;
    const reason = `"reason":"no answer in ${idleTimeoutSeconds} s"`;
    const text = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${id},${reason}}}`;
    await upstream
      .send(readMessage(Buffer.from(text)), async () => {}, AbortSignal.timeout(tellingMs))
      .catch((error: unknown) => log.debug('server not told', { reason: String(error) }));
  }

  const send: Upstream['send'] = async (message, deliver, signal) => {
    if (message.kind !== 'request' || message.method === 'subscriptions/listen')
      return upstream.send(message, deliver, signal);
    const ending = new AbortController();
    const over = new AbortController();
    const end = () => ending.abort();
    signal.addEventListener('abort', end, { once: true });
    let heard = 0;
    let isLate = false;

    async function watch(): Promise<void> {
      for (let before = -1; before !== heard && !over.signal.aborted;) {
        before = heard;
        await clock.sleep(idleTimeoutSeconds * 1_000, over.signal);
      }
      if (over.signal.aborted) return;
      isLate = true;
      end();
    }

    void watch();
    try {
      await upstream.send(
        message,
        async (said) => {
          heard += 1;
          if (!isLate) await deliver(said);
        },
        ending.signal,
      );
    } catch (error) {
      if (!isLate || signal.aborted) throw error;
      void tell(message);
      throw new UpstreamError('no_answer', `the server said nothing for ${idleTimeoutSeconds} s`, {
        ...(message.method === 'tools/call' && { outcomeUnknown: true }),
        cause: error,
      });
    } finally {
      over.abort();
      signal.removeEventListener('abort', end);
    }
  };

  return { ...upstream, send };
}
