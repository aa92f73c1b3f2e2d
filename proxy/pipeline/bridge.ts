import type { Writable } from 'node:stream';
import { aborted, type Clock } from '#clock/clock';
import type { Log } from '#log/log';
import { UpstreamError, type Upstream } from '#transport/upstream';
import { BriefMap } from 'latchkey-mcp/brief-map';
import { JsonError } from 'latchkey-mcp/json';
import {
  answerTo,
  errorAnswer,
  idKey,
  MessageError,
  modernVersion,
  readMessage,
  textAt,
  type Failure,
  type Message,
} from 'latchkey-mcp/raw-message';
import { lineCutter, type LongLine, identify, lineWriter } from './lines.ts';
import { backlog, youngGenerationLimit } from './memory-limits.ts';

type BridgeOptions = {
  input: AsyncIterable<Buffer>;
  output: Writable;
  upstream: Upstream;
  clock: Clock;
  log: Log;
  maxMessageBytes: number;
  /** Describes a failed request. `fatal`: every other request would fail in the same way. */
  explain: (error: unknown) => { failure: Failure; fatal: boolean };
  /** Aborts when the process should end. */
  stop: AbortSignal;
};

/** How long requests may still be answered after the assistant has disconnected. */
const graceMs = 3_000;
const closeMs = 1_000;

/**
 * Carries JSON-RPC between an assistant on standard input and output, one message per line, and an MCP server. Every request
 * gets exactly one answer, whatever happens to the server; a request that the assistant cancelled gets none. Resolves when the
 * assistant has disconnected or `stop` aborts. Rejects with an error that `explain` calls fatal, after every request has been
 * answered.
 */
export async function bridge(options: BridgeOptions): Promise<void> {
  return new Bridge(options).run();
}

class Bridge {
  readonly #options: BridgeOptions;
  readonly #writer;
  readonly #requests = new OpenRequests();
  readonly #pending;
  readonly #over = new AbortController();
  readonly #busy = new Set<Promise<unknown>>();
  readonly #limitYoungGeneration = youngGenerationLimit();
  #fault: { error: unknown } | undefined;
  #listening: AbortController | undefined;
  #isRefusing = false;
  #refusal: Promise<void> | undefined;
  // Messages after `initialize` wait for its answer, and those after `notifications/initialized` until it has been sent.
  #handshake: Promise<unknown> | undefined;

  constructor(options: BridgeOptions) {
    this.#options = options;
    this.#writer = lineWriter(options.output);
    this.#pending = backlog(options.clock);
  }

  async run(): Promise<void> {
    await Promise.race([
      this.#readAll(),
      ...[this.#options.stop, this.#writer.gone, this.#over.signal].map(aborted),
    ]);
    this.#over.abort();
    for (const request of this.#requests.all()) this.#giveUp(request);
    await Promise.race([
      this.#options.upstream.close(AbortSignal.timeout(closeMs)),
      this.#options.clock.sleep(closeMs),
    ]);
    this.#writer.flush();
    if (this.#fault) throw this.#fault.error;
  }

  readonly #deliver = (message: Message): Promise<void> => {
    if (message.kind !== 'response') {
      this.#pending.received(message);
      return this.#writer.write(message.bytes);
    }
    const id = message.id ?? 'null';
    const request = id === 'null' ? undefined : this.#requests.take(id);
    if (request) return this.#writer.write(answerTo(request.id, message).bytes);
    this.#options.log.debug('answer to no open request dropped', { id });
    return Promise.resolve();
  };

  async #fail({ id, message }: OpenRequest, error: unknown): Promise<void> {
    const { failure, fatal } = this.#options.explain(error);
    if (this.#requests.take(id)) {
      this.#options.log.warn('request failed', { what: message.method, reason: failure.message });
      // A failed `server/discover` leaves the era unknown. The assistant gets the answer of a legacy server, so that it continues
      // with `initialize` and shows the reason to the person.
      const code = message.method === 'server/discover' ? -32601 : failure.code;
      await this.#writer.write(errorAnswer(id, { ...failure, code }).bytes);
    }
    if (!fatal || this.#fault) return;
    this.#fault = { error };
    await Promise.all(this.#requests.all().map((other) => this.#fail(other, error)));
    this.#over.abort();
  }

  async #handleRequest(message: Message, id: string): Promise<void> {
    const request = this.#requests.open(message, id);
    if (!request) {
      const failure = { code: -32600, message: 'a request with this id is still open' };
      return this.#writer.write(errorAnswer(id, failure).bytes);
    }
    // A subscription stays open, so it does not count towards the backlog.
    const isSubscription = message.method === 'subscriptions/listen';
    const done = isSubscription ? undefined : this.#pending.add(message.bytes.length);
    try {
      await this.#carry(request);
    } finally {
      done?.();
    }
  }

  async #carry(request: OpenRequest): Promise<void> {
    const { message } = request;
    const { signal } = request.controller;
    const turn = this.#handshake;
    if (message.method === 'initialize') {
      this.#listening?.abort();
      this.#waitFor(turn ? turn.then(async () => request.done()) : request.done());
    }
    if (turn) await turn;
    if (signal.aborted) return;
    try {
      await this.#options.upstream.send(message, this.#deliver, signal);
    } catch (error) {
      if (!signal.aborted) await this.#fail(request, error);
    }
  }

  async #notify(message: Message): Promise<void> {
    if (message.kind === 'response') this.#pending.answered(message.id ?? 'null');
    const done = this.#pending.add(message.bytes.length);
    const sent = (this.#handshake ?? Promise.resolve())
      .then(() => this.#options.upstream.send(message, this.#deliver, this.#over.signal))
      .catch((error: unknown) => {
        const { failure } = this.#options.explain(error);
        this.#options.log.warn('message not delivered', {
          what: message.method,
          reason: failure.message,
        });
      })
      .finally(done);
    this.#track(sent);
    const ready = message.method === 'notifications/initialized';
    if (ready) this.#waitFor(sent);
    await sent;
    if (!ready || this.#over.signal.aborted) return;
    this.#listening?.abort();
    this.#listening = new AbortController();
    await this.#options.upstream.listen(
      this.#deliver,
      AbortSignal.any([this.#listening.signal, this.#over.signal]),
    );
  }

  /** Cancels a request at the server: a modern server sees the closed stream, a legacy server gets the message. */
  async #cancel(message: Message): Promise<void> {
    const requestId = this.#cancelledId(message);
    if (requestId === undefined) return;
    const request = this.#requests.find(requestId);
    if (!request) return this.#notify(message);
    this.#requests.take(request.id);
    if (modernVersion(request.message) === undefined) await this.#notify(message);
    request.controller.abort();
  }

  #cancelledId(message: Message): string | undefined {
    try {
      return textAt(message, 'params', 'requestId') ?? 'null';
    } catch (error) {
      if (!(error instanceof JsonError)) throw error;
      this.#options.log.warn('cancellation dropped', {
        reason: this.#options.explain(error).failure.message,
      });
      return undefined;
    }
  }

  async #take(line: Buffer | LongLine): Promise<void> {
    let message: Message;
    try {
      if (!Buffer.isBuffer(line))
        throw new MessageError(
          -32600,
          `a message can have at most ${this.#options.maxMessageBytes} bytes`,
        );
      message = readMessage(line);
    } catch (error) {
      if (!(error instanceof MessageError)) throw error;
      const id = Buffer.isBuffer(line) ? undefined : identify(line);
      return this.#writer.write(
        errorAnswer(id ?? 'null', { code: error.code, message: error.message }).bytes,
      );
    }
    const { kind, id, method } = message;
    if (
      this.#isRefusing &&
      this.#pending.isFull() &&
      kind !== 'response' &&
      method !== 'notifications/cancelled'
    )
      return this.#refuse(message);
    if (kind === 'request' && id !== undefined) await this.#handleRequest(message, id);
    else if (method === 'notifications/cancelled') await this.#cancel(message);
    else await this.#notify(message);
  }

  /** Refuses a message. Reads nothing else until the assistant has received the refusal. */
  async #refuse({ id, method }: Message): Promise<void> {
    this.#options.log.warn('message refused: too many are open', { what: method });
    if (id === undefined) return;
    const failure = { code: -32000, message: 'too many open requests; try again later' };
    this.#refusal = this.#writer.write(errorAnswer(id, failure).bytes);
    await this.#refusal;
  }

  #begin(line: Buffer | LongLine): void {
    this.#limitYoungGeneration();
    this.#take(line).catch((error: unknown) => {
      this.#fault = { error };
      this.#over.abort();
    });
  }

  /** At the end: answers an open request with an error, and aborts it at the server. */
  #giveUp({ id, message, controller }: OpenRequest): void {
    this.#requests.take(id);
    const outcomeUnknown = message.method === 'tools/call';
    const ended = new UpstreamError('no_answer', 'the proxy stopped before the response arrived', {
      ...(outcomeUnknown && { outcomeUnknown }),
    });
    void this.#writer.write(errorAnswer(id, this.#options.explain(ended).failure).bytes);
    controller.abort();
  }

  /** Makes later messages wait for `work`. */
  #waitFor(work: Promise<unknown>): void {
    this.#handshake = work;
    // One turn later, so that no message overtakes those that waited.
    void work
      .then(() => undefined)
      .then(() => {
        if (this.#handshake === work) this.#handshake = undefined;
      });
  }

  /** The work to finish after stdin has ended. It does not include subscriptions, because they never end. */
  #unfinished(): Promise<unknown>[] {
    const awaited = this.#requests
      .all()
      .filter(({ message }) => message.method !== 'subscriptions/listen');
    return [...this.#busy, ...awaited.map(async (request) => request.done())];
  }

  #track(work: Promise<unknown>): void {
    this.#busy.add(work);
    void work.finally(() => this.#busy.delete(work));
  }

  async #readAll(): Promise<void> {
    const lines = lineCutter(this.#options.maxMessageBytes);
    for await (const chunk of this.#options.input) {
      for (const line of lines.take(chunk)) this.#begin(line);
      await this.#refusal;
      if (this.#pending.isFull()) await this.#pending.whenReadable(this.#over.signal);
      this.#isRefusing = this.#pending.isFull();
    }
    const last = lines.rest();
    if (last) this.#begin(last);
    const enough = this.#options.clock.sleep(graceMs, this.#over.signal).then(() => true);
    for (;;) {
      const work = this.#unfinished();
      if (work.length === 0 || this.#over.signal.aborted) return;
      if (await Promise.race([enough, Promise.allSettled(work).then(() => false)])) return;
    }
  }
}

/** A request from the assistant that has not been answered yet. */
type OpenRequest = {
  /** The JSON text of its id, as the assistant wrote it. */
  id: string;
  message: Message;
  controller: AbortController;
  /** Resolves when it has been answered or given up. */
  done(): Promise<void>;
};

/** The requests without an answer. Only the code that takes a request out may answer it. */
class OpenRequests {
  readonly #requests = new BriefMap<string, OpenRequest>();
  /** Created on demand: most requests are never waited for. */
  readonly #ends = new Map<string, PromiseWithResolvers<void>>();

  /** Returns `undefined` if a request with that id is open already. */
  open(message: Message, id: string): OpenRequest | undefined {
    const key = idKey(id);
    if (this.#requests.has(key)) return undefined;
    const request: OpenRequest = {
      id,
      message,
      controller: new AbortController(),
      done: async () => this.#end(request),
    };
    this.#requests.set(key, request);
    return request;
  }

  find(id: string): OpenRequest | undefined {
    return this.#requests.get(idKey(id));
  }

  /** Returns `undefined` if there is no such request. */
  take(id: string): OpenRequest | undefined {
    const key = idKey(id);
    const request = this.#requests.get(key);
    if (!request) return undefined;
    this.#requests.delete(key);
    if (this.#ends.size > 0) {
      this.#ends.get(key)?.resolve();
      this.#ends.delete(key);
    }
    return request;
  }

  all(): OpenRequest[] {
    return [...this.#requests.values()];
  }

  async #end(request: OpenRequest): Promise<void> {
    const key = idKey(request.id);
    if (this.#requests.get(key) !== request) return;
    const known = this.#ends.get(key) ?? Promise.withResolvers<void>();
    this.#ends.set(key, known);
    await known.promise;
  }
}
