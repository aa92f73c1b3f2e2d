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
  plainAnswer,
  type Backlog,
} from './local-server.ts';

export type RequestOptions = { accept: string; signal: AbortSignal };

/** A child and the caller that it serves. */
export interface ChildSession {
  readonly caller: string;
  /** When it was last used. While anything is open: now. */
  usedAt(): EpochSeconds;
  readonly isBusy: boolean;

  /** Sends a request to the child. Returns JSON, or an event stream if other messages precede the answer. */
  request(message: Message, options: RequestOptions): Promise<LocalAnswer>;

  /** Sends a notification, or the caller's answer to a request of the child. */
  send(message: Message): void;

  /** Streams what the child sends on its own, until `signal` aborts or the next call replaces this listener. */
  listen(signal: AbortSignal): LocalAnswer;

  /** Resolves when the child has ended. */
  readonly ended: Promise<void>;
  /** How it ended: `ended with code 1: no such file`. */
  readonly endedHow: string | undefined;
  end(): Promise<void>;
}

export type ChildSessionOptions = {
  caller: string;
  /** Whether the caller has a session, so that the child can send requests to it. */
  hasSession: boolean;
  maxMessageBytes: number;
  clock: Clock;
  log: Log;
};

/** How many messages are held for a caller that is not listening, and of how many bytes. */
const maxHeldMessages = 100;
const maxHeldBytes = 4 * 1024 * 1024;
/** How many requests of a child may wait for the caller's answer. */
const maxPending = 1_000;
const tooManyRequests = { code: -32603, message: 'too many requests are waiting for the caller' };
const eventStream = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' };

/** MCP 2025-11-25 transports, "Streamable HTTP" */
export function childSession(child: Child, options: ChildSessionOptions): ChildSession {
  const { caller, hasSession, maxMessageBytes, clock, log } = options;
  let usedAt = clock.now();
  let listener: AnswerStream | undefined;
  const held: Message[] = [];
  let heldBytes = 0;
  /** Of all streams of this child. */
  const backlog: Backlog = { bytes: 0 };
  /** Requests of the child that wait for the caller's answer. */
  const pending = new Set<string>();
  const link = childLink(child, { onUnsolicited, log, maxMessageBytes });
  const ended = link.ended.then(() => listener?.end());

  /** Delivers to the only open request; otherwise to the listener; otherwise to the latest request. */
  function onUnsolicited(message: Message): void {
    if (message.kind === 'request') {
      const id = message.id ?? 'null';
      const refusal = {
        code: -32601,
        message: 'the caller has no session, so it cannot receive requests',
      };
      if (!hasSession) return link.send(errorAnswer(id, refusal));
      if (pending.size >= maxPending) return link.send(errorAnswer(id, tooManyRequests));
      pending.add(idKey(id));
    } else if (message.method === 'notifications/cancelled')
      pending.delete(idKey(textAt(message, 'params', 'requestId') ?? 'null'));
    const only = link.openCount === 1 ? link.latest : undefined;
    if (only) only.onMessage(message);
    else if (listener?.push(message)) return;
    else if (link.latest) link.latest.onMessage(message);
    else hold(message);
  }

  function hold(message: Message): void {
    if (!hasSession || listener?.push(message)) return;
    held.push(message);
    heldBytes += message.bytes.length;
    while (held.length > maxHeldMessages || heldBytes > maxHeldBytes) drop(held.shift());
  }

  function drop(message: Message | undefined): void {
    heldBytes -= message?.bytes.length ?? 0;
    // Without an answer to its request, the call that made it would never end.
    if (message?.kind !== 'request' || !pending.delete(idKey(message.id ?? 'null'))) return;
    link.send(errorAnswer(message.id ?? 'null', tooManyRequests));
  }

  return {
    caller,
    ended,
    end: async () => child.end(),
    get endedHow() {
      return link.endedHow;
    },
    get isBusy() {
      return link.openCount > 0 || listener !== undefined;
    },
    usedAt() {
      if (this.isBusy) usedAt = clock.now();
      return usedAt;
    },
    async request(message, { accept, signal }) {
      usedAt = clock.now();
      const streams = accept === '' || /text\/event-stream|\*\/\*/.test(accept);
      const json = accept === '' || /application\/json|\*\/\*/.test(accept);
      const stream = answerStream(backlog, hold);
      let answer: Message | undefined;
      let hasStreamed = false;
      let cancel = () => {};
      const answered = Promise.withResolvers<void>();
      const stop = () => cancel();
      cancel = link.request(message, {
        onMessage(other) {
          hasStreamed ||= streams;
          if (!streams || !stream.push(other)) hold(other);
        },
        onAnswer(received) {
          signal.removeEventListener('abort', stop);
          usedAt = clock.now();
          answer = received;
          answered.resolve();
          // In an event stream, the answer is the last event.
          if (answer) stream.push(answer);
          stream.end();
        },
      });
      // Also after the answer, which may not have been read.
      signal.addEventListener('abort', () => stream.close(), { once: true });
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
      await Promise.race(
        json ? [answered.promise, ...(streams ? [stream.begun] : [])] : [stream.begun],
      );
      if (answer && json && !hasStreamed) {
        stream.close();
        return plainAnswer(statusOf(message, answer), answer.bytes);
      }
      return { status: 200, headers: eventStream, body: stream.events() };
    },
    send(message) {
      usedAt = clock.now();
      if (message.kind === 'response' && !pending.delete(idKey(message.id ?? 'null'))) return;
      link.send(message);
    },
    listen(signal) {
      usedAt = clock.now();
      listener?.end();
      const stream = answerStream(backlog, hold);
      listener = stream;
      for (const message of held.splice(0)) stream.push(message);
      heldBytes = 0;
      signal.addEventListener(
        'abort',
        () => {
          if (listener === stream) listener = undefined;
          stream.close();
        },
        { once: true },
      );
      return { status: 200, headers: eventStream, body: stream.events() };
    },
  };
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
export type OpenRequest = {
  /** Receives what belongs to this request: its progress, its subscription. */
  onMessage: (message: Message) => void;
  /** Receives the answer, under the caller's id; `undefined` if the request was cancelled. */
  onAnswer: (answer: Message | undefined) => void;
};

export interface ChildLink {
  /** Sends a request. The returned function cancels it at the child; then no answer follows. */
  request(request: Message, open: OpenRequest): () => void;

  /** Sends a notification or an answer. In a cancellation, the id becomes the one that the child knows. */
  send(message: Message): void;

  /** The number of open requests, and the last one opened. */
  readonly openCount: number;
  readonly latest: OpenRequest | undefined;

  /** Resolves when the child has ended and all open requests have an answer. */
  readonly ended: Promise<void>;
  readonly endedHow: string | undefined;
}

export type ChildLinkOptions = {
  /** Receives what belongs to no request in particular. */
  onUnsolicited: (message: Message) => void;
  log: Log;
  maxMessageBytes: number;
};

type Entry = OpenRequest & { id: string; token: string | undefined };

const subscription = 'io.modelcontextprotocol/subscriptionId';
const maxLoggedIgnored = 5;

/**
 * Lets many requests share one child. Ids and progress tokens are replaced by ours, so that those of different
 * callers never collide. All other bytes of a message stay the same.
 */
export function childLink(
  child: Child,
  { onUnsolicited, log, maxMessageBytes }: ChildLinkOptions,
): ChildLink {
  const open = new Map<string, Entry>();
  let lastId = 0;
  let ignored = 0;
  let endedHow: string | undefined;

  function ignore(reason: string): void {
    ignored += 1;
    if (ignored <= maxLoggedIgnored) log.warn('ignored a message of a child', { reason });
  }

  function settle(ours: string, answer: Message | undefined): void {
    const entry = open.get(ours);
    open.delete(ours);
    entry?.onAnswer(answer);
  }

  function takeAnswer(message: Message): void {
    const ours = idKey(message.id ?? 'null');
    const entry = open.get(ours);
    if (!entry) return ignore('it does not respond to a request');
    const span = spanAt(message, 'result', '_meta', subscription);
    settle(ours, answerTo(entry.id, spliced(message, [{ span, text: entry.id }])));
  }

  /** Delivers a notification about a request, with the id or token that its caller uses; anything else is unsolicited. */
  function takeOther(message: Message): void {
    const path =
      message.method === 'notifications/progress'
        ? ['params', 'progressToken']
        : ['params', '_meta', subscription];
    const text = message.kind === 'notification' ? textAt(message, ...path) : undefined;
    if (text === undefined || !/^["\d-]/.test(text)) return onUnsolicited(message);
    const entry = open.get(idKey(text));
    const theirs = path[1] === 'progressToken' ? entry?.token : entry?.id;
    // The request has ended, or asked for no progress.
    if (!entry || theirs === undefined) return;
    entry.onMessage(spliced(message, [{ span: spanAt(message, ...path), text: theirs }]));
  }

  function takeLine(line: Buffer | LongLine): void {
    if (!Buffer.isBuffer(line)) {
      const ours = longAnswerId(line);
      const entry = ours === undefined ? undefined : open.get(ours);
      const message = `the server's response is larger than ${maxMessageBytes} bytes`;
      if (entry) settle(ours ?? '', errorAnswer(entry.id, { code: -32603, message }));
      else ignore(`it is larger than ${maxMessageBytes} bytes`);
      return;
    }
    try {
      const message = readMessage(line);
      if (message.kind === 'response') takeAnswer(message);
      else takeOther(message);
    } catch (error) {
      ignore(String(error));
    }
  }

  async function read(): Promise<void> {
    try {
      for await (const line of child.lines) takeLine(line);
    } catch (error) {
      log.debug('reading a child failed', { reason: String(error) });
    }
    // A child that closes its output has nothing more to send.
    void child.end();
    endedHow = await child.ended;
    for (const [ours, { id }] of open)
      settle(ours, errorAnswer(id, { code: -32603, message: `the MCP server ${endedHow}` }));
  }

  function cancel(ours: string, params?: Message): void {
    const entry = open.get(ours);
    if (!entry) return;
    const reason = params && textAt(params, 'params', 'reason');
    const more = reason === undefined ? '' : `,"reason":${reason}`;
    write(
      `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${ours}${more}}}`,
    );
    settle(ours, undefined);
  }

  function write(line: string | Buffer): void {
    void child.write(typeof line === 'string' ? Buffer.from(line) : line);
  }

  return {
    request(request, { onMessage, onAnswer }) {
      lastId += 1;
      const ours = String(lastId);
      const token = textAt(request, 'params', '_meta', 'progressToken');
      open.set(ours, { onMessage, onAnswer, id: request.id ?? 'null', token });
      const line = spliced(request, [
        { span: request.members.get('id'), text: ours },
        { span: spanAt(request, 'params', '_meta', 'progressToken'), text: ours },
      ]);
      write(line.bytes);
      return () => cancel(ours);
    },
    send(message) {
      if (message.method !== 'notifications/cancelled') return write(message.bytes);
      const theirs = textAt(message, 'params', 'requestId');
      if (theirs === undefined || !/^["\d-]/.test(theirs)) return;
      const key = idKey(theirs);
      // If a caller used an id twice, the latest request.
      const found = [...open].findLast(([, { id }]) => idKey(id) === key);
      if (found) cancel(found[0], message);
    },
    get openCount() {
      return open.size;
    },
    get latest() {
      return [...open.values()].at(-1);
    },
    get endedHow() {
      return endedHow;
    },
    ended: read(),
  };
}

/** The id of an answer that is too long to be read. Ours are numbers, near the start or at the very end. */
function longAnswerId(line: LongLine): string | undefined {
  if (identify(line) !== undefined) return undefined;
  const front = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,/;
  const back = /,\s*"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/;
  const { head, tail } = line;
  return (front.exec(head.toString('latin1')) ?? back.exec(tail.toString('latin1')))?.[1];
}

/** `message` with new JSON text at some spans. All other bytes stay the same. */
export function spliced(
  message: Message,
  changes: readonly { span: Span | undefined; text: string }[],
): Message {
  const edits = changes.flatMap(({ span, text }) => (span ? [{ span, text }] : []));
  return edits.length === 0 ? message : readMessage(replaced(message.bytes, edits));
}
