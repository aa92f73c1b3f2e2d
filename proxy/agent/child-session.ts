import type { Clock, EpochSeconds } from '#clock/clock';
import type { Log } from '#log/log';
import { identify, type LongLine } from '#pipeline/lines';
import type { Span } from 'latchkey-mcp/json';
import { replaced } from 'latchkey-mcp/json-edit';
import {
  errorAnswer,
  idKey,
  modernVersion,
  type Message,
  answerTo,
  readMessage,
  spanAt,
  textAt,
} from 'latchkey-mcp/raw-message';
import type { Child } from './child-process.ts';
import {
  answerStream,
  type AnswerStream,
  type LocalAnswer,
  LocalServerError,
  plainAnswer,
  type Backlog,
} from './local-server.ts';

export type RequestOptions = { accept: string; signal: AbortSignal };

export type ChildSessionOptions = {
  caller: string;
  /** Whether the caller has a session, so that the child can send requests to it. */
  hasSession: boolean;
  maxMessageBytes: number;
  clock: Clock;
  log: Log;
};

/** The limits on the messages that are held for a caller that is not listening. */
const maxHeldMessages = 100;
const maxHeldBytes = 4 * 1024 * 1024;
/** How many requests of a child may wait for the caller's answer. */
const maxPending = 1_000;
const noSession = {
  code: -32601,
  message: 'the caller has no session, so it cannot receive requests',
};
const tooManyRequests = { code: -32603, message: 'too many requests are waiting for the caller' };
const eventStream = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' };

/**
 * A child and the caller that it serves.
 *
 * MCP 2025-11-25 transports, "Streamable HTTP"
 */
export class ChildSession {
  readonly #child: Child;
  readonly #options: ChildSessionOptions;
  readonly #link: ChildLink;
  #usedAt: EpochSeconds;
  #listener: AnswerStream | undefined;
  readonly #held: Message[] = [];
  #heldBytes = 0;
  /** The total that is queued for all streams of this child. */
  readonly #backlog: Backlog = { bytes: 0 };
  /** Requests of the child that wait for the caller's answer. */
  readonly #pending = new Set<string>();
  /** Resolves when the child has ended. */
  readonly ended: Promise<void>;

  constructor(child: Child, options: ChildSessionOptions) {
    this.#child = child;
    this.#options = options;
    this.#usedAt = options.clock.now();
    const onUnsolicited = (message: Message) => this.#takeUnsolicited(message);
    this.#link = new ChildLink(child, { ...options, onUnsolicited });
    this.ended = this.#link.ended.then(() => this.#listener?.end());
  }

  get caller(): string {
    return this.#options.caller;
  }

  /** How the child ended: `ended with code 1: no such file`. */
  get endedHow(): string | undefined {
    return this.#link.endedHow;
  }

  get isBusy(): boolean {
    return this.#link.openCount > 0 || this.#listener !== undefined;
  }

  /** When the session was last used: now, while a request or a listener is open. */
  usedAt(): EpochSeconds {
    if (this.isBusy) this.#noteUse();
    return this.#usedAt;
  }

  async end(): Promise<void> {
    return this.#child.end();
  }

  /**
   * Sends a request to the child. Returns JSON, or an event stream if other messages precede the answer.
   *
   * @throws {LocalServerError} `broken` if the child ends first, `too_large`; reading an event stream may throw it, too
   */
  async request(message: Message, { accept, signal }: RequestOptions): Promise<LocalAnswer> {
    this.#noteUse();
    const streams = accept === '' || /text\/event-stream|\*\/\*/.test(accept);
    const json = accept === '' || /application\/json|\*\/\*/.test(accept);
    const stream = answerStream(this.#backlog, (unread) => this.#hold(unread));
    let answer: Message | undefined;
    let failure: LocalServerError | undefined;
    let hasStreamed = false;
    let cancel = () => {};
    const answered = Promise.withResolvers<void>();
    const stop = () => cancel();
    cancel = this.#link.request(message, {
      onMessage: (other) => {
        hasStreamed ||= streams;
        if (!streams || !stream.push(other)) this.#hold(other);
      },
      onAnswer: (received) => {
        signal.removeEventListener('abort', stop);
        this.#noteUse();
        answer = received;
        answered.resolve();
        // In an event stream, the answer is the last event.
        if (answer) stream.push(answer);
        stream.end();
      },
      onFailure: (error) => {
        signal.removeEventListener('abort', stop);
        failure = error;
        answered.resolve();
        stream.fail(error);
      },
    });
    // This listener stays after the answer, because the answer may still be unread.
    signal.addEventListener('abort', () => stream.close(), { once: true });
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    await Promise.race(
      json ? [answered.promise, ...(streams ? [stream.begun] : [])] : [stream.begun],
    );
    if (failure && !hasStreamed) throw failure;
    if (answer && json && !hasStreamed) {
      stream.close();
      return plainAnswer(statusOf(message, answer), answer.bytes);
    }
    return { status: 200, headers: eventStream, body: stream.events() };
  }

  /** Sends a notification, or the caller's answer to a request of the child. */
  send(message: Message): void {
    this.#noteUse();
    if (message.kind === 'response' && !this.#pending.delete(idKey(message.id ?? 'null'))) return;
    this.#link.send(message);
  }

  /** Streams the messages that the child sends on its own, until `signal` aborts or the next call replaces this listener. */
  listen(signal: AbortSignal): LocalAnswer {
    this.#noteUse();
    this.#listener?.end();
    const stream = answerStream(this.#backlog, (unread) => this.#hold(unread));
    this.#listener = stream;
    this.#heldBytes = 0;
    for (const message of this.#held.splice(0)) stream.push(message);
    const stop = () => {
      if (this.#listener === stream) this.#listener = undefined;
      stream.close();
    };
    signal.addEventListener('abort', stop, { once: true });
    return { status: 200, headers: eventStream, body: stream.events() };
  }

  #noteUse(): void {
    this.#usedAt = this.#options.clock.now();
  }

  /**
   * Delivers a message that belongs to no request: to the only open request if there is just one, otherwise to the
   * listener, otherwise to the latest open request. Without any of them, holds it for the next listener.
   */
  #takeUnsolicited(message: Message): void {
    if (message.kind === 'request') {
      const id = message.id ?? 'null';
      if (!this.#options.hasSession) return this.#link.send(errorAnswer(id, noSession));
      if (this.#pending.size >= maxPending)
        return this.#link.send(errorAnswer(id, tooManyRequests));
      this.#pending.add(idKey(id));
    } else if (message.method === 'notifications/cancelled')
      this.#pending.delete(idKey(textAt(message, 'params', 'requestId') ?? 'null'));
    const only = this.#link.openCount === 1 ? this.#link.latest : undefined;
    if (only) only.onMessage(message);
    else if (this.#listener?.push(message)) return;
    else if (this.#link.latest) this.#link.latest.onMessage(message);
    else this.#hold(message);
  }

  #hold(message: Message): void {
    if (!this.#options.hasSession || this.#listener?.push(message)) return;
    this.#held.push(message);
    this.#heldBytes += message.bytes.length;
    while (this.#held.length > maxHeldMessages || this.#heldBytes > maxHeldBytes)
      this.#drop(this.#held.shift());
  }

  #drop(message: Message | undefined): void {
    this.#heldBytes -= message?.bytes.length ?? 0;
    // A child that waits for an answer to its request may never answer the call in which it sent the request.
    if (message?.kind !== 'request' || !this.#pending.delete(idKey(message.id ?? 'null'))) return;
    this.#link.send(errorAnswer(message.id ?? 'null', tooManyRequests));
  }
}

/** In the modern era, some errors have a status of their own. MCP 2026-07-28 transports */
function statusOf(request: Message, answer: Message): number {
  const span = answer.members.get('error');
  if (!span || modernVersion(request) === undefined) return 200;
  const { code }: { code?: unknown } = JSON.parse(
    answer.bytes.toString('utf8', span.start, span.end),
  );
  if (code === -32601) return 404;
  return code === -32020 || code === -32021 || code === -32022 ? 400 : 200;
}

/** A request that a child has not answered yet. */
type OpenRequest = {
  /** Receives notifications about this request, and messages that refer to no request. */
  onMessage: (message: Message) => void;
  /** Receives the answer, under the caller's id; `undefined` if the request was cancelled. */
  onAnswer: (answer: Message | undefined) => void;
  /** Called instead of `onAnswer` if the child ends first, or its answer is too long. */
  onFailure: (error: LocalServerError) => void;
};

type ChildLinkOptions = {
  /** Receives requests of the child, and notifications that refer to no request. */
  onUnsolicited: (message: Message) => void;
  log: Log;
  maxMessageBytes: number;
};

type Entry = OpenRequest & { id: string; token: string | undefined };

const subscription = 'io.modelcontextprotocol/subscriptionId';
const maxLoggedIgnored = 5;

/**
 * Lets many requests share one child. Ids and progress tokens are replaced by our own, so that those of different
 * requests never collide. All other bytes of a message stay the same.
 */
class ChildLink {
  readonly #child: Child;
  readonly #options: ChildLinkOptions;
  /** By our id. */
  readonly #open = new Map<string, Entry>();
  #lastId = 0;
  #ignored = 0;
  #endedHow: string | undefined;
  /** Resolves when the child has ended and all open requests have failed. */
  readonly ended: Promise<void>;

  constructor(child: Child, options: ChildLinkOptions) {
    this.#child = child;
    this.#options = options;
    this.ended = this.#read();
  }

  get endedHow(): string | undefined {
    return this.#endedHow;
  }

  get openCount(): number {
    return this.#open.size;
  }

  /** The most recently opened request that is still open. */
  get latest(): OpenRequest | undefined {
    return [...this.#open.values()].at(-1);
  }

  /** Sends a request. The returned function cancels it at the child, and calls `onAnswer` with `undefined`. */
  request(request: Message, open: OpenRequest): () => void {
    this.#lastId += 1;
    const ours = String(this.#lastId);
    const token = textAt(request, 'params', '_meta', 'progressToken');
    this.#open.set(ours, { ...open, id: request.id ?? 'null', token });
    const line = spliced(request, [
      { span: request.members.get('id'), text: ours },
      { span: spanAt(request, 'params', '_meta', 'progressToken'), text: ours },
    ]);
    this.#write(line.bytes);
    return () => this.#cancel(ours);
  }

  /** Sends a notification or an answer. In a cancellation, the id becomes the one that the child knows. */
  send(message: Message): void {
    if (message.method !== 'notifications/cancelled') return this.#write(message.bytes);
    const theirs = textAt(message, 'params', 'requestId');
    if (theirs === undefined || !/^["\d-]/.test(theirs)) return;
    const key = idKey(theirs);
    // If a caller has used an id twice, this cancels the latest request.
    const found = [...this.#open].findLast(([, { id }]) => idKey(id) === key);
    if (found) this.#cancel(found[0], message);
  }

  async #read(): Promise<void> {
    try {
      for await (const line of this.#child.lines) this.#takeLine(line);
    } catch (error) {
      this.#options.log.debug('reading a child failed', { reason: String(error) });
    }
    // A child that closes its output has nothing more to send.
    void this.#child.end();
    this.#endedHow = await this.#child.ended;
    const failure = new LocalServerError('broken', `the MCP server ${this.#endedHow}`);
    for (const ours of this.#open.keys()) this.#take(ours)?.onFailure(failure);
  }

  #takeLine(line: Buffer | LongLine): void {
    if (!Buffer.isBuffer(line)) return this.#takeLong(line);
    try {
      const message = readMessage(line);
      if (message.kind === 'response') this.#takeAnswer(message);
      else this.#takeOther(message);
    } catch (error) {
      this.#ignore(String(error));
    }
  }

  #takeLong(line: LongLine): void {
    const limit = `larger than ${this.#options.maxMessageBytes} bytes`;
    const ours = longAnswerId(line) ?? '';
    const entry = this.#take(ours);
    if (!entry) return this.#ignore(`it is ${limit}`);
    entry.onFailure(new LocalServerError('too_large', `the server's response is ${limit}`));
  }

  #takeAnswer(message: Message): void {
    const ours = idKey(message.id ?? 'null');
    const entry = this.#open.get(ours);
    if (!entry) return this.#ignore('it does not respond to a request');
    const span = spanAt(message, 'result', '_meta', subscription);
    const answer = answerTo(entry.id, spliced(message, [{ span, text: entry.id }]));
    this.#take(ours)?.onAnswer(answer);
  }

  /** Delivers a notification about a request, with the id or token that its caller uses; anything else is unsolicited. */
  #takeOther(message: Message): void {
    const path =
      message.method === 'notifications/progress'
        ? ['params', 'progressToken']
        : ['params', '_meta', subscription];
    const text = message.kind === 'notification' ? textAt(message, ...path) : undefined;
    if (text === undefined || !/^["\d-]/.test(text)) return this.#options.onUnsolicited(message);
    const entry = this.#open.get(idKey(text));
    const theirs = path[1] === 'progressToken' ? entry?.token : entry?.id;
    // The request has ended, or asked for no progress.
    if (!entry || theirs === undefined) return;
    entry.onMessage(spliced(message, [{ span: spanAt(message, ...path), text: theirs }]));
  }

  #ignore(reason: string): void {
    this.#ignored += 1;
    if (this.#ignored > maxLoggedIgnored) return;
    this.#options.log.warn('ignored a message of a child', { reason });
  }

  #cancel(ours: string, cancellation?: Message): void {
    if (!this.#open.has(ours)) return;
    const reason = cancellation && textAt(cancellation, 'params', 'reason');
    const params = `{"requestId":${ours}${reason === undefined ? '' : `,"reason":${reason}`}}`;
    this.#write(
      Buffer.from(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`),
    );
    this.#take(ours)?.onAnswer(undefined);
  }

  /** Removes and returns the open request with this id. */
  #take(ours: string): Entry | undefined {
    const entry = this.#open.get(ours);
    this.#open.delete(ours);
    return entry;
  }

  #write(line: Buffer): void {
    void this.#child.write(line);
  }
}

/** The id of an answer that is too long to be read. Our ids are numbers; a server writes them near the start or at the very end. */
function longAnswerId(line: LongLine): string | undefined {
  if (identify(line) !== undefined) return undefined;
  const front = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,/;
  const back = /,\s*"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/;
  const { head, tail } = line;
  return (front.exec(head.toString('latin1')) ?? back.exec(tail.toString('latin1')))?.[1];
}

/** `message` with new JSON text at some spans. All other bytes stay the same. */
function spliced(
  message: Message,
  changes: readonly { span: Span | undefined; text: string }[],
): Message {
  const edits = changes.flatMap(({ span, text }) => (span ? [{ span, text }] : []));
  return edits.length === 0 ? message : readMessage(replaced(message.bytes, edits));
}
