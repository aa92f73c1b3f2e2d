import { setTimeout as pause } from 'node:timers/promises';

import type { UpstreamAnswer } from '#gateway/upstream';
import { discardAnswer } from './discard-answer.ts';
import type { Message } from './message.ts';
import { said } from './said.ts';

const firstRetryMs = 1000;
const longestRetryMs = 30_000;

export interface UnaskedStreamPorts {
  readonly take: (message: Message) => void;
  /** The stream is there again after it broke off. */
  readonly reopened: () => void;
  /** There is none, or none any more. */
  readonly over: () => void;
  readonly signal: AbortSignal;
}

/**
 * Reads what an upstream of the older era says unasked, until `signal` aborts; a stream that broke off is
 * opened again by `send`. Resolves once it is known whether there is such a stream.
 *
 * MCP 2025-11-25 transports, "Listening for Messages from the Server"
 */
export function unaskedStream(
  send: () => Promise<UpstreamAnswer>,
  { take, reopened, over, signal }: UnaskedStreamPorts,
): Promise<boolean> {
  const begun = Promise.withResolvers<boolean>();
  const follow = async () => {
    let tries = 0;
    let isThere = false;
    while (!signal.aborted) {
      try {
        const answer = await send();
        if (answer.status !== 200 || answer.mediaType !== 'text/event-stream') {
          await discardAnswer(answer);
          break;
        }
        if (isThere) reopened();
        isThere = true;
        tries = 0;
        begun.resolve(true);
        for await (const message of said(answer)) take(message);
      } catch {
        // Broken off: tried again below, unless it is over.
      }
      const waitMs = Math.min(firstRetryMs * 2 ** tries, longestRetryMs);
      tries += 1;
      await pause(waitMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
    begun.resolve(false);
    over();
  };
  void follow();
  return begun.promise;
}
