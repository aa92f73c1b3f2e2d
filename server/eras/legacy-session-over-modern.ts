import type { Upstream, UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import { AskedCaller } from './asked-caller.ts';
import { filterMembers } from './change-kinds.ts';
import { ChangeStream } from './change-stream.ts';
import { logLevels, type ClientWords } from './envelope.ts';
import { stringAt, valueAt, type Message } from './message.ts';
import { modernPost, modernRequest } from './modern-request.ts';
import { errorTo, resultTo } from './responses.ts';
import { carriesMessages } from './said.ts';
import { told, toldLive, toldNothing, toldOnce } from './told.ts';
import { translatedCall } from './translated-call.ts';

export interface SessionParts {
  readonly owner: string;
  /** Who said `initialize`. */
  readonly client: ClientWords;
  /** The upstream's answer to `server/discover`. */
  readonly answer: Message;
}

/** The way by which one request goes: what it says of who asks is so at that moment. */
export interface Passage {
  readonly upstream: Upstream;
  /** Aborted when nobody waits any more. */
  readonly signal: AbortSignal;
  readonly headers: UpstreamRequest['headers'];
}

/** One session of a caller of the older era at an upstream of the modern one, which keeps nothing of it. */
export class LegacySessionOverModern {
  readonly owner: string;
  /** The lists whose changes the upstream tells of. */
  readonly lists: readonly string[];
  readonly changes: ChangeStream;
  readonly #caller = new AskedCaller();
  /** By the caller's id, as JSON text. */
  readonly #running = new Map<string, AbortController>();
  readonly #isSubscribable: boolean;
  #client: ClientWords;

  constructor({ owner, client, answer }: SessionParts) {
    const announces = (...path: string[]) =>
      valueAt(answer, 'result', 'capabilities', ...path) === true;
    this.owner = owner;
    this.#client = client;
    this.#isSubscribable = announces('resources', 'subscribe');
    this.lists = Object.keys(filterMembers).filter((list) => announces(list, 'listChanged'));
    this.changes = new ChangeStream(() => this.#client);
  }

  /** A message of the caller's, and the answer to it. */
  async take(message: Message, passage: Passage): Promise<UpstreamAnswer> {
    const { kind, method, requestId } = message.envelope;
    if (kind === 'response') this.#caller.take(message);
    if (kind === 'notification' && method === 'notifications/cancelled') {
      this.#running.get(requestId ?? '')?.abort();
    }
    // What else a caller tells is for the sake of its own era.
    if (kind !== 'request') return toldNothing();
    const answer = await this.#answered(message);
    return answer ? toldOnce(answer) : this.#call(message, passage);
  }

  close(): void {
    this.changes.close();
    for (const running of this.#running.values()) running.abort();
  }

  /** The response to a request that has no counterpart in the modern era. */
  async #answered(message: Message): Promise<Message | undefined> {
    const { id = 'null', method = '' } = message.envelope;
    const uri = stringAt(message, 'params', 'uri') ?? '';
    switch (method) {
      case 'ping':
        return resultTo(id, '{}');
      case 'logging/setLevel': {
        const logLevel = stringAt(message, 'params', 'level') ?? '';
        if (!logLevels.has(logLevel)) return errorTo(id, -32602, 'no such log level');
        this.#client = { ...this.#client, logLevel };
        return resultTo(id, '{}');
      }
      case 'resources/subscribe': {
        const isTold = this.#isSubscribable && (await this.changes.subscribe(uri));
        if (isTold) return resultTo(id, '{}');
        return errorTo(id, this.#isSubscribable ? -32602 : -32601, 'its changes are not told of');
      }
      case 'resources/unsubscribe':
        this.changes.unsubscribe(uri);
        return resultTo(id, '{}');
      default:
        return undefined;
    }
  }

  async #call(
    message: Message,
    { upstream, signal: callers, headers }: Passage,
  ): Promise<UpstreamAnswer> {
    const { id = 'null' } = message.envelope;
    const cancelled = new AbortController();
    const signal = AbortSignal.any([callers, cancelled.signal]);
    this.#running.set(id, cancelled);
    const over = () => {
      if (this.#running.get(id) === cancelled) this.#running.delete(id);
    };
    try {
      const [client, caller] = [this.#client, this.#caller];
      const sent = modernRequest(message, client);
      const first = await upstream.send(modernPost(sent, signal, headers));
      if (!carriesMessages(first)) {
        over();
        return first;
      }
      const ports = { upstream, client, caller, signal, headers };
      return await told(until(translatedCall(message, first, ports), cancelled.signal, over));
    } catch (error) {
      over();
      if (!cancelled.signal.aborted || callers.aborted) throw error;
      // Who cancels gets no answer. MCP 2025-11-25 cancellation
      return toldLive(nothing());
    }
  }
}

/** The messages until their end or `cancelled`, which is an end like any other; then `over` runs. */
async function* until(
  messages: AsyncGenerator<Message>,
  cancelled: AbortSignal,
  over: () => void,
): AsyncGenerator<Message> {
  try {
    yield* messages;
  } catch (error) {
    if (!cancelled.aborted) throw error;
  } finally {
    over();
  }
}

async function* nothing(): AsyncGenerator<Message> {}
