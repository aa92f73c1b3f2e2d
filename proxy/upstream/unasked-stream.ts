import type { IncomingMessage } from 'node:http';
import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import type { LegacySession } from './legacy-session.ts';
import { readEvents, type StreamPosition } from './read-events.ts';
import { retryMs } from './retry-ms.ts';
import { isEventStream } from './streamed-answer.ts';
import { UpstreamError, type Deliver } from './upstream.ts';

export type UnaskedStreamOptions = {
  session: () => LegacySession;
  /** Asks for the stream, behind the event of that id. */
  get: (lastEventId: string | undefined, signal: AbortSignal) => Promise<IncomingMessage>;
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
};

/** A stream that stood this long was cut by something on the way, not refused. */
const steadySeconds = 10;

/**
 * Delivers what a server says in its session unasked, over a stream that is asked for by GET again and
 * again; resolves when there will be none. A server may refuse it.
 *
 * MCP 2025-11-25 transports, listening for messages from the server
 */
export async function unaskedStream(
  { session, get, ...options }: UnaskedStreamOptions,
  deliver: Deliver,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log } = options;
  let position: StreamPosition = {};
  let attempt = 0;

  async function followed(response: IncomingMessage): Promise<boolean> {
    if (isEventStream(response)) return readEvents(response, position, deliver, options);
    response.resume();
    log.debug('no event stream', { status: response.statusCode });
    return false;
  }

  for (let of = session().id; of !== undefined && !signal.aborted; of = session().id) {
    try {
      const stream = await get(position.lastEventId, signal);
      const status = stream.statusCode ?? 0;
      const openedAt = clock.now();
      const moved = await followed(stream);
      if (moved || clock.now() - openedAt > steadySeconds) attempt = 0;
      if (status >= 400 && status < 500 && status !== 404 && status !== 429) return;
      // A request that meets the same 404 starts the next session; this stream follows it.
      if (status === 404) {
        if (attempt > 0 && session().id === of) return;
        position = {};
      }
    } catch (error) {
      if (error instanceof UpstreamError && error.code === 'unauthorized') return;
      log.debug('stream not opened', { reason: error instanceof Error ? error.message : '' });
    }
    await clock.sleep(position.retryMs ?? retryMs(attempt), signal);
    attempt += 1;
  }
}
