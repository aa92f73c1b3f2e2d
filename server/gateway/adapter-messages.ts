import type { EndSignal } from '#model/ending';
import { modernHeaders, traceHeaders } from 'latchkey-mcp/headers';
import { type Message, readMessage } from 'latchkey-mcp/message';
import { messageEvent } from 'latchkey-mcp/sse';
import { eventsIn, wholeBody } from './answers.ts';
import { orSilence } from './live-stream.ts';
import type { GiveUp, HeldBody } from './body-memory.ts';
import { post, type Upstream, type UpstreamAnswer, type UpstreamRequest } from './upstream.ts';

const json = 'application/json';
const eventStream = 'text/event-stream';

/** Whether an answer carries messages, rather than an HTTP error. */
export function carriesMessages({ status, mediaType }: UpstreamAnswer): boolean {
  if (mediaType === json) return status === 200 || status === 400 || status === 404;
  return status === 200 && mediaType === eventStream;
}

/** The messages of an answer as they arrive. Anything that is not a message is dropped. */
export async function* messagesOf(
  { mediaType, body }: UpstreamAnswer,
  maxBytes?: number,
): AsyncGenerator<Message> {
  if (mediaType !== eventStream) {
    const message = readMessage(await wholeBody(body, maxBytes));
    if (message) yield message;
    return;
  }
  for await (const { data } of eventsIn(body, maxBytes)) {
    // Copied, because later chunks overwrite these bytes.
    const message = data.length > 0 ? readMessage(Buffer.from(data)) : undefined;
    if (message) yield message;
  }
}

/** Like `messagesOf`, but a message stops counting as part of the answer when it is yielded. A reader that keeps it must count it. */
export async function* messagesLetGo(answer: UpstreamAnswer): AsyncGenerator<Message> {
  const { body } = answer;
  for await (const message of messagesOf(answer)) {
    if (!(body instanceof Uint8Array)) body.letGo?.();
    yield message;
  }
}

const keepAliveMs = 15_000;
const keepAlive = Buffer.from(': keepalive\n\n');

type Next = Awaited<ReturnType<AsyncGenerator<Message>['next']>>;

/** Wraps a message as a JSON answer. */
export function jsonOf(message: Message, status = 200): UpstreamAnswer {
  return { ...emptyHead, status, mediaType: 'application/json', body: message.body, message };
}

/** An answer without a body. The default status is for a message that needs no response. */
export function emptyAnswer(status = 202): UpstreamAnswer {
  return { ...emptyHead, status };
}

/**
 * Turns messages into an upstream's answer: JSON if the first message is the response, with the status from `statusOf`;
 * otherwise an event stream of all messages as they come.
 */
export async function answerOf(
  messages: AsyncGenerator<Message>,
  statusOf: (response: Message) => number = () => 200,
): Promise<UpstreamAnswer> {
  const first = await messages.next();
  if (!first.done && first.value.envelope.kind === 'response') {
    await messages.return(undefined);
    return jsonOf(first.value, statusOf(first.value));
  }
  return streamOf(messages, first);
}

/** Turns messages into an event stream, with comments that keep the connection alive. */
export function streamOf(messages: AsyncGenerator<Message>, first?: Next): UpstreamAnswer {
  return {
    ...emptyHead,
    status: 200,
    mediaType: 'text/event-stream',
    body: events(messages, first),
  };
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
        // The failure is handled when the promise is awaited, and may be ignored if it never is.
        coming.catch(() => undefined);
        yield messageEvent(next.value.body);
      }
    }
  } finally {
    void messages.return(undefined).catch(() => undefined);
  }
}

const emptyHead: UpstreamAnswer = {
  status: 200,
  mediaType: '',
  sessionId: undefined,
  retryAfterSeconds: undefined,
  body: new Uint8Array(),
};

/** The longest message of an upstream that is kept for a caller, in bytes: the answer to a handshake, or a question for the caller. */
export const maxKeptBytes = 1024 * 1024;

const maxWaiting = 1000;
const maxWaitingBytes = 1024 * 1024;

/** How the memory of an inbox's messages is counted. */
export interface InboxMemory {
  readonly hold?: Upstream['hold'];
  /** Ends whatever reads the inbox. It must call `drop`. */
  readonly giveUp: GiveUp;
}

/**
 * A queue of messages for one reader. Writers never wait: while the reader is a thousand messages or a mebibyte behind,
 * only a response is still added, because it is the last message. An empty queue takes a message of any length. Each message
 * counts until the reader asks for the next one.
 */
export class Inbox {
  readonly #waiting: { readonly message: Message; readonly change: string | undefined }[] = [];
  /** The `change` of each waiting message that has one. */
  readonly #changes = new Set<string>();
  readonly #held: HeldBody | undefined;
  #waitingBytes = 0;
  #takenBytes = 0;
  #isOver = false;
  #failure: unknown;
  #news = Promise.withResolvers<void>();

  constructor({ hold, giveUp }: InboxMemory = { giveUp: (refusal) => this.drop(refusal) }) {
    this.#held = hold?.(giveUp);
  }

  /**
   * Adds a message; `false` if there is no room for it or the inbox has ended. A response for which there is no memory ends the inbox with the
   * refusal. A message with the same `change` as a waiting one is not added again. Log messages take at most half of the room, so that
   * they do not displace others.
   */
  push(message: Message, change?: string, { isLog = false } = {}): boolean {
    const isLast = message.envelope.kind === 'response';
    const share = isLog ? 0.5 : 1;
    const isFull =
      this.#waiting.length >= maxWaiting * share ||
      this.#waitingBytes + message.body.length > maxWaitingBytes * share;
    if (this.#isOver || (!isLast && isFull && this.#waiting.length > 0)) return false;
    if (change !== undefined && this.#changes.has(change)) return true;
    const refusal = this.#count(message.body.length);
    if (refusal !== undefined) {
      this.#count();
      if (isLast) this.end(refusal);
      return false;
    }
    this.#waiting.push({ message, change });
    if (change !== undefined) this.#changes.add(change);
    this.#waitingBytes += message.body.length;
    this.#wake();
    return true;
  }

  /** Takes the messages that were not read. The inbox then counts no memory. */
  rest(): Message[] {
    const left = this.#waiting.splice(0).map(({ message }) => message);
    this.#changes.clear();
    this.#waitingBytes = 0;
    this.#takenBytes = 0;
    this.#count();
    return left;
  }

  /** Nothing more follows. The reader gets `failure` after the queued messages. */
  end(failure?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#failure = failure;
    this.#wake();
  }

  /** Ends the inbox and drops the messages that were not read, except for requests of the upstream, which are left for `rest`. */
  drop(failure: unknown): void {
    this.end(failure);
    this.#failure = failure;
    const left = this.rest().filter(({ envelope }) => envelope.kind === 'request');
    for (const message of left) this.#waiting.push({ message, change: undefined });
  }

  /** The next message; `undefined` at the end. */
  async next(): Promise<Message | undefined> {
    this.#takenBytes = 0;
    this.#count();
    for (;;) {
      const next = this.#waiting.shift();
      if (next) {
        const { message, change } = next;
        if (change !== undefined) this.#changes.delete(change);
        this.#waitingBytes -= message.body.length;
        this.#takenBytes = message.body.length;
        return message;
      }
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#isOver) return undefined;
      await this.#news.promise;
    }
  }

  /** Counts the kept bytes and `more`. Returns the refusal if the limits do not allow them. */
  #count(more = 0): unknown {
    if (!this.#held) return undefined;
    this.#held.letGo();
    const bytes = this.#waitingBytes + this.#takenBytes + more;
    if (bytes === 0) return undefined;
    try {
      this.#held.take(bytes);
      return undefined;
    } catch (refusal) {
      this.#held.letGo();
      return refusal;
    }
  }

  #wake(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}

/** An inbox for the call that `upstream` belongs to. The inbox and the call end if others need the memory of the waiting messages. */
export function inboxFor({ hold, giveUp }: Pick<Upstream, 'hold' | 'giveUp'>): Inbox {
  const inbox: Inbox = new Inbox({
    hold,
    giveUp: (refusal) => {
      inbox.drop(refusal);
      giveUp?.(refusal);
    },
  });
  return inbox;
}

/** The POST that carries a modern message; `callers` are the headers of the request that caused it. */
export function modernPost(
  message: Message,
  signal: EndSignal,
  callers: UpstreamRequest['headers'] = {},
): UpstreamRequest {
  return post(message, { ...modernHeaders(message.envelope), ...traceHeaders(callers) }, signal);
}
