import { endUpstreamSession } from '#gateway/end-upstream-session';
import { postHeaders, traceHeaders } from '#gateway/forwarded-headers';
import type { Upstream, UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import { allChanged } from './change-kinds.ts';
import { discardAnswer } from './discard-answer.ts';
import type { ClientWords } from './envelope.ts';
import { LegacyCall } from './legacy-call.ts';
import type { Handshake } from './legacy-handshake.ts';
import { LinkListeners } from './link-listeners.ts';
import { messageOf, stringAt, textAt, valueAt, type Message } from './message.ts';
import { errorTo, resultTo } from './responses.ts';
import { carriesMessages, said } from './said.ts';
import { unaskedStream } from './unasked-stream.ts';

const requestTimeoutMs = 30_000;
const tellTimeoutMs = 10_000;

/** What an upstream may ask a caller, by the capability that says so. */
const askable: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
};

/** How a request got on: it is under way, its session is gone, or HTTP refused it. */
export type Started =
  | { readonly outcome: 'started'; readonly call: LegacyCall }
  | { readonly outcome: 'lost' }
  | { readonly outcome: 'refused'; readonly answer: UpstreamAnswer };

/**
 * A handshake with an upstream of the older era, and the session that came of it, for one owner and one
 * client of theirs. What the upstream says goes to the call that it is about; what is about none, to whoever
 * listens, or, being a question, to the latest call.
 *
 * MCP 2025-11-25 lifecycle, transports
 */
export class LegacyLink {
  readonly client: ClientWords;
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

  /** Says that the handshake is over, and how much of its log the upstream is to tell. */
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

  /** Asks the upstream; `message` has an id that `nextId` gave, `callers` are the headers of the request it is made for. */
  async start(message: Message, callers: UpstreamRequest['headers'] = {}): Promise<Started> {
    const call = new LegacyCall(message.envelope.id ?? '', (told) => this.tell(told));
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

  /** Asks for the link itself; `undefined` when there is no response. `params` is JSON text. */
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

  /** A notification or a response for the upstream; one that it does not take is nothing. */
  tell(message: Message): void {
    if (this.#closed.signal.aborted) return;
    this.#post(message).catch(() => undefined);
  }

  /** Listens to what the upstream says unasked; `false` when there is no such stream. */
  async listen(): Promise<boolean> {
    this.#listening ??= this.#follow();
    return this.#listening;
  }

  /** Ends everything, the session at the upstream too. */
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
      // While nobody heard anything, anything may have changed.
      reopened: () => allChanged(this.listeners.wanted()).forEach((told) => this.#route(told)),
      over: () => this.listeners.end(),
    });
  }

  async #post({ body }: Message): Promise<void> {
    const signal = AbortSignal.timeout(tellTimeoutMs);
    const headers = this.#headers;
    await discardAnswer(await this.#upstream.send({ method: 'POST', headers, body, signal }));
  }

  /** Reads what an upstream says on the stream of one call. */
  async #read(answer: UpstreamAnswer, call: LegacyCall): Promise<void> {
    try {
      for await (const message of said(answer)) this.#route(message, call);
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
      else this.tell(errorTo(id, -32601, 'nobody is there to be asked that'));
    } else if (this.listeners.take(message)) return;
    else if (method !== 'notifications/progress') latest?.inbox.push(message);
    else this.#calls.get(textAt(message, 'params', 'progressToken') ?? '')?.inbox.push(message);
  }
}
