import type { IncomingMessage } from 'node:http';
import type { Clock } from '#clock/clock';
import { answerTo } from '#jsonrpc/answer';
import { modernVersion } from '#jsonrpc/modern-version';
import type { Message } from '#jsonrpc/message';
import type { Log } from '#log/log';
import { isFor } from './read-answer.ts';
import { readEvents, type StreamPosition } from './read-events.ts';
import { retryMs } from './retry-ms.ts';
import { UpstreamError, type Deliver } from './upstream.ts';

export type StreamedAnswerOptions = {
  deliver: Deliver;
  /** Asks for the stream again, behind an event. */
  resume: (lastEventId: string) => Promise<IncomingMessage>;
  signal: AbortSignal;
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
};

const resumeAttempts = 5;

/** A server may leave the stream open behind its answer, but not forever. */
const lingerMs = 5_000;

/**
 * Delivers what a stream says because of `request`, its answer among it. One that broke off is asked for
 * again where its events have ids, also while the server cannot be reached for a moment.
 *
 * MCP 2025-11-25 transports, resumability
 *
 * @throws {UpstreamError} `no_answer`, `too_large`, `aborted`
 */
export async function streamedAnswer(
  request: Message,
  response: IncomingMessage,
  options: StreamedAnswerOptions,
): Promise<void> {
  const { deliver, resume, signal, clock, log } = options;
  const linger = new AbortController();
  let answered = false;
  let stream = response;
  const position: StreamPosition = {};
  const taking: Deliver = async (message) => {
    const mine = isFor(request, message);
    await deliver(mine ? answerTo(request.id ?? 'null', message) : message);
    if (!mine) return;
    answered = true;
    void clock.sleep(lingerMs, linger.signal).then(() => stream.destroy());
  };
  try {
    await readEvents(stream, position, taking, options);
    for (let attempt = 0; ;) {
      if (answered) return;
      if (signal.aborted) throw new UpstreamError('aborted', 'aborted');
      const { lastEventId } = position;
      if (lastEventId === undefined || modernVersion(request) !== undefined) throw endedEarly();
      if (attempt >= resumeAttempts) throw endedEarly();
      await clock.sleep(position.retryMs ?? retryMs(attempt), signal);
      try {
        stream = await resume(lastEventId);
      } catch (error) {
        if (!(error instanceof UpstreamError) || error.code !== 'unreachable') throw error;
        log.debug('stream not resumed', { reason: error.message });
        // What the server said about waiting was not meant for its absence.
        await clock.sleep(retryMs(attempt), signal);
        attempt += 1;
        continue;
      }
      if (!isEventStream(stream)) {
        stream.resume();
        log.debug('stream not resumed', { status: stream.statusCode });
        if (isFinal(stream)) throw endedEarly();
        attempt += 1;
        continue;
      }
      attempt = (await readEvents(stream, position, taking, options)) ? 0 : attempt + 1;
    }
  } finally {
    linger.abort();
  }
}

/** Whether `response` is a stream of events. */
export function isEventStream({ statusCode, headers }: IncomingMessage): boolean {
  const type = headers['content-type'] ?? '';
  return statusCode === 200 && /^text\/event-stream\b/i.test(type);
}

/** Whether a server that answers so will not take the stream up again. */
function isFinal({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode < 500 && statusCode !== 429;
}

function endedEarly(): UpstreamError {
  return new UpstreamError('no_answer', 'the stream ended without the answer', { status: 200 });
}
