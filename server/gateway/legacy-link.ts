import { setTimeout as pause } from 'node:timers/promises';

import { postHeaders, traceHeaders } from 'latchkey-mcp/headers';
import {
  type Message,
  errorTo,
  messageOf,
  resultTo,
  stringAt,
  textAt,
  valueAt,
} from 'latchkey-mcp/message';
import { type Changes, allChanged, filterMembers } from 'latchkey-mcp/subscriptions';
import type { ClientDescription } from 'latchkey-mcp/translation';
import { Inbox, carriesMessages, messagesOf } from './adapter-messages.ts';
import { discardAnswer, endUpstreamSession } from './answers.ts';
import type { Handshake } from './legacy-links.ts';
import type { Upstream, UpstreamAnswer, UpstreamRequest } from './upstream.ts';

const requestTimeoutMs = 30_000;
const tellTimeoutMs = 10_000;

/** What an upstream may ask a caller, by the required capability. */
const askable: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
};

/** The state of a request: in progress, refused because its session is gone, or refused by HTTP. */
export type Started =
  | { readonly outcome: 'started'; readonly call: LegacyCall }
  | { readonly outcome: 'lost' }
  | { readonly outcome: 'refused'; readonly answer: UpstreamAnswer };

/**
 * A handshake with a legacy upstream and its session, for one owner and one of their clients. Messages go to the call
 * they belong to; others go to listeners, or, if they are questions, to the latest call.
 *
 * MCP 2025-11-25 lifecycle, transports
 */
export class LegacyLink {
  readonly client: ClientDescription;
  /** The upstream's answer to `initialize`. */
  readonly initialized: Message;
  readonly listeners: LinkListeners;
  readonly #upstream: Upstream;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #hasSession: boolean;
  readonly #canAsk: ReadonlySet<string>;
  readonly #calls = new Map<string, LegacyCall>();
  readonly #closed = new AbortController();
  #listening: Promise<boolean> | undefined;
  #lastId = 0;

  constructor({ upstream, client, initialized, sessionId }: Handshake) {
    const can: object = JSON.parse(client.capabilities);
    this.client = client;
    this.initialized = initialized;
    this.#upstream = upstream;
    this.#hasSession = sessionId !== undefined;
    this.#headers = {
      ...postHeaders,
      'mcp-protocol-version': stringAt(initialized, 'result', 'protocolVersion') ?? '',
      ...(sessionId !== undefined && { 'mcp-session-id': sessionId }),
    };
    this.#canAsk = new Set(
      Object.keys(askable).filter((method) => Object.hasOwn(can, askable[method] ?? '')),
    );
    this.listeners = new LinkListeners(this);
  }

  /** Completes the handshake and sets the log level. */
  async begin(): Promise<void> {
    await this.#post(messageOf('{"jsonrpc":"2.0","method":"notifications/initialized"}'));
    const { logLevel: level } = this.client;
    const canLog = valueAt(this.initialized, 'result', 'capabilities', 'logging') !== undefined;
    if (level === undefined || !canLog) return;
    await this.request('logging/setLevel', JSON.stringify({ level }));
  }

  get isBusy(): boolean {
    return this.#calls.size > 0 || this.listeners.size > 0;
  }

  nextId(): string {
    this.#lastId += 1;
    return String(this.#lastId);
  }

  /**
   * Sends a request. The id of `message` comes from `nextId`; `callers` are the headers of the request that caused
   * it.
   */
  async start(message: Message, callers: UpstreamRequest['headers'] = {}): Promise<Started> {
    const call = new LegacyCall(message.envelope.id ?? '', (notification) =>
      this.tell(notification),
    );
    this.#calls.set(call.id, call);
    call.ended.addEventListener('abort', () => this.#calls.delete(call.id), { once: true });
    // An upstream may ask over the stream that belongs to no call.
    if (this.#hasSession && this.#canAsk.size > 0) void this.listen();
    try {
      const headers = { ...this.#headers, ...traceHeaders(callers) };
      const { body } = message;
      const answer = await this.#upstream.send({
        method: 'POST',
        headers,
        body,
        signal: call.ended,
      });
      if (answer.status === 404 && this.#hasSession) {
        call.over();
        await discardAnswer(answer);
        return { outcome: 'lost' };
      }
      if (!carriesMessages(answer)) {
        call.over();
        return { outcome: 'refused', answer };
      }
      void this.#read(answer, call);
      return { outcome: 'started', call };
    } catch (error) {
      call.over();
      throw error;
    }
  }

  /** Sends a request of the link's own; `undefined` if there is no response. `params` is JSON text. */
  async request(method: string, params: string): Promise<Message | undefined> {
    const id = this.nextId();
    const text = `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${params}}`;
    const started = await this.start(messageOf(text));
    if (started.outcome !== 'started') return undefined;
    const { call } = started;
    const giveUp = setTimeout(() => call.cancel(), requestTimeoutMs).unref();
    try {
      let message = await call.inbox.next();
      while (message && message.envelope.kind !== 'response') message = await call.inbox.next();
      return message;
    } catch {
      return undefined;
    } finally {
      clearTimeout(giveUp);
      call.over();
    }
  }

  /** Sends a notification or a response to the upstream and ignores failures. */
  tell(message: Message): void {
    if (this.#closed.signal.aborted) return;
    this.#post(message).catch(() => undefined);
  }

  /** Opens the stream of the upstream's own messages; `false` if there is none. */
  async listen(): Promise<boolean> {
    this.#listening ??= this.#follow();
    return this.#listening;
  }

  /** Ends everything, including the session at the upstream. */
  async close(): Promise<void> {
    if (this.#closed.signal.aborted) return;
    for (const call of this.#calls.values()) call.cancel();
    this.#closed.abort();
    this.listeners.end();
    if (this.#hasSession) await endUpstreamSession(this.#upstream, this.#headers);
  }

  #follow(): Promise<boolean> {
    const { signal } = this.#closed;
    const headers = { ...this.#headers, accept: 'text/event-stream' };
    const send = () => this.#upstream.send({ method: 'GET', headers, signal });
    return unaskedStream(send, {
      signal,
      take: (message) => this.#route(message),
      // Anything may have changed during the gap.
      reopened: () =>
        allChanged(this.listeners.wanted()).forEach((notification) => this.#route(notification)),
      over: () => this.listeners.end(),
    });
  }

  async #post({ body }: Message): Promise<void> {
    const signal = AbortSignal.timeout(tellTimeoutMs);
    const headers = this.#headers;
    await discardAnswer(await this.#upstream.send({ method: 'POST', headers, body, signal }));
  }

  /** Reads the upstream's messages on the stream of one call. */
  async #read(answer: UpstreamAnswer, call: LegacyCall): Promise<void> {
    try {
      for await (const message of messagesOf(answer)) this.#route(message, call);
      call.inbox.end();
    } catch (error) {
      call.inbox.end(error);
    }
  }

  #route(message: Message, about?: LegacyCall): void {
    const { kind, id = '', method = '' } = message.envelope;
    const latest = about ?? [...this.#calls.values()].at(-1);
    if (kind === 'response') {
      if (id === about?.id) about.inbox.push(message);
    } else if (kind === 'request') {
      if (method === 'ping') this.tell(resultTo(id, '{}'));
      else if (latest && this.#canAsk.has(method)) latest.inbox.push(message);
      else this.tell(errorTo(id, -32601, 'Method not found'));
    } else if (this.listeners.take(message)) return;
    else if (method !== 'notifications/progress') latest?.inbox.push(message);
    else this.#calls.get(textAt(message, 'params', 'progressToken') ?? '')?.inbox.push(message);
  }
}

/** A request that a legacy upstream has not answered yet. */
export class LegacyCall {
  /** JSON text; also its progress token. */
  readonly id: string;
  /** Its progress, its log, its upstream's questions, its response. */
  readonly inbox = new Inbox();
  readonly #ended = new AbortController();
  readonly #tell: (message: Message) => void;

  constructor(id: string, tell: (message: Message) => void) {
    this.id = id;
    this.#tell = tell;
  }

  /** Aborted when the call is over, answered or not. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** The caller no longer waits: notifies the upstream and closes its stream. */
  cancel(): void {
    if (this.#ended.signal.aborted) return;
    const params = `{"requestId":${this.id},"reason":"the caller no longer waits for the answer"}`;
    this.#tell(
      messageOf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`),
    );
    this.over();
  }

  over(): void {
    this.#ended.abort();
    this.inbox.end(new DOMException('the call was ended', 'AbortError'));
  }
}

const firstRetryMs = 1000;
const longestRetryMs = 30_000;

export interface UnaskedStreamPorts {
  readonly take: (message: Message) => void;
  /** The stream is open again after it broke off. */
  readonly reopened: () => void;
  /** There is no stream, or no longer. */
  readonly over: () => void;
  readonly signal: AbortSignal;
}

/**
 * Reads the messages that a legacy upstream sends on its own until `signal` aborts; a broken stream is reopened by
 * `send`. Resolves once it is known whether there is such a stream.
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
        for await (const message of messagesOf(answer)) take(message);
      } catch {
        // It broke off. It is retried below unless it is over.
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

/** Each is a request to the upstream, and one message of a caller must not cause an unlimited number of them. */
const maxUris = 1000;

/** What listeners need of a link. */
export interface ListenedLink {
  readonly initialized: Message;
  listen(): Promise<boolean>;
  request(method: string, params: string): Promise<Message | undefined>;
}

export interface Listener {
  /** The accepted part of what was requested. */
  readonly honoured: Changes;
  readonly inbox: Inbox;
}

/** The listeners of one link, each with its own subscription. */
export class LinkListeners {
  readonly #link: ListenedLink;
  readonly #listeners = new Set<Listener>();
  /** The number of listeners per resource. */
  readonly #uris = new Map<string, number>();

  constructor(link: ListenedLink) {
    this.#link = link;
  }

  get size(): number {
    return this.#listeners.size;
  }

  /** Adds a listener for as much of `wanted` as the upstream announces, until `signal` aborts. */
  async add(wanted: Changes, signal: AbortSignal): Promise<Listener> {
    const announces = (...path: string[]) =>
      valueAt(this.#link.initialized, 'result', 'capabilities', ...path) === true;
    const isThere = await this.#link.listen();
    const lists = isThere ? wanted.lists.filter((list) => announces(list, 'listChanged')) : [];
    const uris: string[] = [];
    const may = isThere && announces('resources', 'subscribe');
    for (const uri of may ? new Set(wanted.uris.slice(0, maxUris)) : []) {
      if (signal.aborted) break;
      if (await this.#subscribe(uri)) uris.push(uri);
    }
    const listener = { honoured: { lists, uris }, inbox: new Inbox() };
    this.#listeners.add(listener);
    return listener;
  }

  /** Removes a listener, and the subscriptions that no other listener has. */
  async remove(listener: Listener): Promise<void> {
    if (!this.#listeners.delete(listener)) return;
    listener.inbox.end();
    for (const uri of listener.honoured.uris) await this.#unsubscribe(uri);
  }

  /** Passes a change notification to its listeners; `false` for other messages. */
  take(message: Message): boolean {
    const { method = '' } = message.envelope;
    const list = /^notifications\/(\w+)\/list_changed$/.exec(method)?.[1] ?? '';
    const isOfList = Object.hasOwn(filterMembers, list);
    if (!isOfList && method !== 'notifications/resources/updated') return false;
    const uri = stringAt(message, 'params', 'uri') ?? '';
    for (const { honoured, inbox } of this.#listeners) {
      const isWanted = isOfList ? honoured.lists.includes(list) : honoured.uris.includes(uri);
      if (isWanted) inbox.push(message);
    }
    return true;
  }

  /** The union of all subscriptions. */
  wanted(): Changes {
    const all = [...this.#listeners].map(({ honoured }) => honoured);
    return {
      lists: [...new Set(all.flatMap(({ lists }) => lists))],
      uris: [...new Set(all.flatMap(({ uris }) => uris))],
    };
  }

  end(): void {
    for (const { inbox } of this.#listeners) inbox.end();
    this.#listeners.clear();
  }

  async #subscribe(uri: string): Promise<boolean> {
    const count = this.#uris.get(uri) ?? 0;
    this.#uris.set(uri, count + 1);
    if (count > 0) return true;
    const response = await this.#link.request('resources/subscribe', JSON.stringify({ uri }));
    if (response && textAt(response, 'result') !== undefined) return true;
    this.#uris.delete(uri);
    return false;
  }

  async #unsubscribe(uri: string): Promise<void> {
    const count = (this.#uris.get(uri) ?? 0) - 1;
    if (count > 0) return void this.#uris.set(uri, count);
    this.#uris.delete(uri);
    await this.#link.request('resources/unsubscribe', JSON.stringify({ uri }));
  }
}
