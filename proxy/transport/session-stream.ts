import { backOffs, pauseMs } from '#clock/back-off';
import type { IncomingMessage } from 'node:http';
import { aborted, type Clock } from '#clock/clock';
import type { Log } from '#log/log';
import { readEvents, type StreamPosition, isEventStream } from './answers.ts';
import { type RecurringEvent } from './retry.ts';
import type { HeldSession } from './session.ts';
import { UpstreamError, type Deliver } from './upstream.ts';

type SessionStreamOptions = {
  session: HeldSession;
  /** Requests the stream, after the event with that id. */
  get: (lastEventId: string | undefined, signal: AbortSignal) => Promise<IncomingMessage>;
  /** Occurs when the server accepts a message. */
  accepted: RecurringEvent;
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
};

/** A stream that lasted this long was not refused; something between us and the server cut it. */
const steadySeconds = 10;

/** The shortest time between two requests for a stream, however many messages the server accepts. */
const leastMs = 1_000;

/** The outcome of a stream: it `ended`, or the server was unreachable (`absent`), has no streams (`none`), forgot the session or refused. */
type Outcome = 'ended' | 'absent' | 'none' | 'forgotten' | 'refused' | 'unauthorized';

/**
 * Delivers the messages that a server sends on its own, over a stream that is requested with GET in the current session and requested again
 * whenever it ends. Resolves when no further stream is possible. If a server that has opened a stream before no longer knows the
 * session, another session is started, because there may be no call that would discover this. A server that never opened a
 * stream may not support GET, so it gets the request again in the next session only.
 *
 * MCP 2025-11-25 transports, listening for messages from the server
 */
export async function sessionStream(
  { session, get, accepted, ...options }: SessionStreamOptions,
  deliver: Deliver,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log } = options;
  let position: StreamPosition = {};
  let attempt = 0;
  let hasOpened = false;

  async function follow(within: AbortSignal): Promise<Outcome> {
    const stream = await get(position.lastEventId, within);
    const outcome = outcomeOf(stream);
    if (outcome !== 'ended') {
      stream.resume();
      log.debug('no event stream', { status: stream.statusCode });
      return outcome;
    }
    log.debug('event stream open', {});
    hasOpened = true;
    const openedAt = clock.now();
    const moved = await readEvents(stream, position, deliver, options);
    if (moved || clock.now() - openedAt > steadySeconds) attempt = 0;
    return outcome;
  }

  async function tried(within: AbortSignal): Promise<Outcome> {
    try {
      return await follow(within);
    } catch (error) {
      log.debug('stream not opened', { reason: error instanceof Error ? error.message : '' });
      const isRefused = error instanceof UpstreamError && error.code === 'unauthorized';
      return isRefused ? 'unauthorized' : 'absent';
    }
  }

  async function revived(forgotten: string): Promise<void> {
    await session.revive(forgotten).then(
      () => (hasOpened = false),
      (error: unknown) => log.debug('no other session', { reason: String(error) }),
    );
  }

  /** Waits before the next request. The wait ends early if a server that was unreachable accepts a message. */
  async function pause(outcome: Outcome, within: AbortSignal): Promise<void> {
    const wantedMs = outcome === 'ended' ? position.retryMs : undefined;
    const ms = wantedMs ?? pauseMs(backOffs.stream, attempt);
    attempt += 1;
    await clock.sleep(Math.min(ms, leastMs), within);
    if (ms <= leastMs) return;
    const over = new AbortController();
    const rest = clock.sleep(ms - leastMs, AbortSignal.any([within, over.signal]));
    const isBack = outcome === 'absent' && hasOpened;
    await (isBack
      ? Promise.race([rest, accepted.next(AbortSignal.any([within, over.signal]))])
      : rest);
    over.abort();
  }

  for (let of: string | undefined; !signal.aborted;) {
    const revival = session.revival();
    // The first request is immediate: the server may need this stream for requests during the first call.
    if (revival) await revival.catch(() => undefined);
    const { id } = session.current();
    if (id === undefined) return;
    if (id !== of) {
      position = {};
      attempt = 0;
      of = id;
    }
    const within = AbortSignal.any([signal, session.replaced]);
    const outcome = await tried(within);
    if (within.aborted) continue;
    if (outcome === 'none') return;
    if (outcome === 'forgotten' && hasOpened) await revived(id);
    else if (outcome === 'forgotten' || outcome === 'refused') await aborted(within);
    else if (outcome === 'unauthorized') await accepted.next(within);
    if (!within.aborted) await pause(outcome, within);
  }
}

function outcomeOf(stream: IncomingMessage): Outcome {
  const { statusCode: status = 0 } = stream;
  if (isEventStream(stream)) return 'ended';
  // A response of another type is no stream either.
  if (status === 405 || status === 200) return 'none';
  if (status === 404) return 'forgotten';
  return status >= 400 && status < 500 && status !== 429 ? 'refused' : 'absent';
}
