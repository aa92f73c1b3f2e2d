import { orSilence } from '#gateway/or-silence';
import type { UpstreamAnswer } from '#gateway/upstream';
import type { Message } from './message.ts';

const keepAliveMs = 15_000;
const keepAlive = Buffer.from(': keepalive\n\n');

type Next = Awaited<ReturnType<AsyncGenerator<Message>['next']>>;

/** A message of ours as an upstream's answer in JSON. */
export function toldOnce({ body }: Message, status = 200): UpstreamAnswer {
  return { ...nothing, status, mediaType: 'application/json', body };
}

/** The answer to what needs none. */
export function toldNothing(status = 202): UpstreamAnswer {
  return { ...nothing, status };
}

/**
 * Messages of ours as an upstream's answer: JSON where the first is the response, with the status that
 * `statusOf` gives it, else an event stream of them all as they come.
 */
export async function told(
  messages: AsyncGenerator<Message>,
  statusOf: (response: Message) => number = () => 200,
): Promise<UpstreamAnswer> {
  const first = await messages.next();
  if (!first.done && first.value.envelope.kind === 'response') {
    await messages.return(undefined);
    return toldOnce(first.value, statusOf(first.value));
  }
  return toldLive(messages, first);
}

/** The same, as an event stream whatever comes; a comment now and then keeps its connection alive. */
export function toldLive(messages: AsyncGenerator<Message>, first?: Next): UpstreamAnswer {
  return { ...nothing, status: 200, mediaType: 'text/event-stream', body: events(messages, first) };
}

async function* events(
  messages: AsyncGenerator<Message>,
  first: Next | undefined,
): AsyncGenerator<Uint8Array> {
  let coming: Promise<Next> = first ? Promise.resolve(first) : messages.next();
  try {
    for (;;) {
      const next = await orSilence(coming, keepAliveMs);
      if (next === undefined) yield keepAlive;
      else if (next.done) return;
      else {
        coming = messages.next();
        // Its failure is told when it is waited for, unless nobody waits any more.
        coming.catch(() => undefined);
        yield Buffer.concat([Buffer.from('event: message\ndata: '), line(next.value), end]);
      }
    }
  } finally {
    void messages.return(undefined).catch(() => undefined);
  }
}

const end = Buffer.from('\n\n');

/** A message on one line: outside strings, JSON means the same without its line breaks. */
function line({ body }: Message): Buffer {
  if (!body.includes(0x0a) && !body.includes(0x0d)) return body;
  return Buffer.from(body.toString('utf8').replaceAll(/[\r\n]+/g, ' '));
}

const nothing: UpstreamAnswer = {
  status: 200,
  mediaType: '',
  sessionId: undefined,
  retryAfterSeconds: undefined,
  body: new Uint8Array(),
};
