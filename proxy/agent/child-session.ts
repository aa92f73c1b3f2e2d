import type { Clock, EpochSeconds } from '#clock/clock';
import { errorAnswer, idKey, modernVersion, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import { answerStream, type AnswerStream } from './answer-stream.ts';
import type { Child } from './child.ts';
import { childLink } from './child-link.ts';
import type { LocalAnswer } from './local-server.ts';
import { plainAnswer } from './plain-answer.ts';

export type Asking = { accept: string; signal: AbortSignal };

/** One child and the one caller whom it serves. */
export interface ChildSession {
  readonly caller: string;
  /** When it was last used; now, while something is open. */
  usedAt(): EpochSeconds;
  readonly isBusy: boolean;

  /** Asks the child: JSON when it answers at once, an event stream when it says something before. */
  request(message: Message, asking: Asking): Promise<LocalAnswer>;

  /** A notification, or the caller's answer to a request of the child's. */
  tell(message: Message): void;

  /** What the child says unasked, until `signal` aborts; another listener takes its place. */
  listen(signal: AbortSignal): LocalAnswer;

  /** Resolves when the child has ended. */
  readonly ended: Promise<void>;
  /** How it ended: `ended with code 1: no such file`. */
  readonly endedHow: string | undefined;
  end(): Promise<void>;
}

export type ChildSessionOptions = {
  caller: string;
  /** Whether the caller can be asked something: one with a session can, one without cannot. */
  asksBack: boolean;
  maxMessageBytes: number;
  clock: Clock;
  log: Log;
};

/** What is kept for a caller who is not listening just now. */
const heldMessages = 100;
const eventStream = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' };

/** MCP 2025-11-25 transports, "Streamable HTTP" */
export function childSession(child: Child, options: ChildSessionOptions): ChildSession {
  const { caller, asksBack, maxMessageBytes, clock, log } = options;
  let usedAt = clock.now();
  let listener: AnswerStream | undefined;
  const held: Message[] = [];
  /** The child's requests that wait for the caller's answer. */
  const pending = new Set<string>();
  const link = childLink(child, { unasked, log, maxMessageBytes });
  const ended = link.ended.then(() => listener?.end());

  /** To the one request that it can only be about; else to whoever listens; else to the latest request. */
  function unasked(message: Message): void {
    if (message.kind === 'request') {
      const id = message.id ?? 'null';
      const refusal = {
        code: -32601,
        message: 'whoever asks keeps no session, so cannot be asked',
      };
      if (!asksBack) return link.tell(errorAnswer(id, refusal));
      pending.add(idKey(id));
    }
    const only = link.openCount === 1 ? link.latest : undefined;
    if (only) only.said(message);
    else if (listener) listener.say(message);
    else if (link.latest) link.latest.said(message);
    else keep(message);
  }

  function keep(message: Message): void {
    if (!asksBack) return;
    if (listener) return listener.say(message);
    held.push(message);
    if (held.length > heldMessages) held.shift();
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
      const stream = answerStream();
      let whole: Message | undefined;
      let streamed = false;
      let cancel = () => {};
      const over = Promise.withResolvers<void>();
      const stop = () => cancel();
      cancel = link.ask(message, {
        said: (said) => {
          streamed ||= streams;
          if (streams) stream.say(said);
          else keep(said);
        },
        answered(answer) {
          signal.removeEventListener('abort', stop);
          usedAt = clock.now();
          whole = answer;
          over.resolve();
          // In an event stream it is the last event.
          if (answer) stream.say(answer);
          stream.end();
        },
      });
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
      await Promise.race(
        json ? [over.promise, ...(streams ? [stream.begun] : [])] : [stream.begun],
      );
      if (whole && json && !streamed) return plainAnswer(statusOf(message, whole), whole.bytes);
      return { status: 200, headers: eventStream, body: stream.events() };
    },
    tell(message) {
      usedAt = clock.now();
      if (message.kind === 'response' && !pending.delete(idKey(message.id ?? 'null'))) return;
      link.tell(message);
    },
    listen(signal) {
      usedAt = clock.now();
      listener?.end();
      const stream = answerStream();
      listener = stream;
      for (const message of held.splice(0)) stream.say(message);
      signal.addEventListener(
        'abort',
        () => {
          stream.end();
          if (listener === stream) listener = undefined;
        },
        { once: true },
      );
      return { status: 200, headers: eventStream, body: stream.events() };
    },
  };
}

/** In the modern era some errors have a status of their own. MCP 2026-07-28 transports */
function statusOf(request: Message, answer: Message): number {
  const span = answer.members.get('error');
  if (!span || modernVersion(request) === undefined) return 200;
  const { code }: { code?: unknown } = JSON.parse(
    answer.bytes.toString('utf8', span.start, span.end),
  );
  if (code === -32601) return 404;
  return code === -32020 || code === -32021 || code === -32022 ? 400 : 200;
}
