import type { Writable } from 'node:stream';
import { aborted, type Clock } from '#clock/clock';
import type { Log } from '#log/log';
import { UpstreamError, type Upstream } from '#transport/upstream';
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
  const { input, upstream, clock, log, maxMessageBytes, explain, stop } = options;
  const writer = lineWriter(options.output);
  const requests = openRequests();
  const pending = backlog(clock);
  const over = new AbortController();
  const busy = new Set<Promise<unknown>>();
  const limitYoungGeneration = youngGenerationLimit();
  let fault: { error: unknown } | undefined;
  let listening: AbortController | undefined;
  let isRefusing = false;
  let refusal: Promise<void> | undefined;
  // Messages after one of the handshake wait until the server has received that one.
  let handshake: Promise<unknown> | undefined;

  function deliver(message: Message): Promise<void> {
    if (message.kind !== 'response') {
      pending.received(message);
      return writer.write(message.bytes);
    }
    const id = message.id ?? 'null';
    const request = id === 'null' ? undefined : requests.take(id);
    if (request) return writer.write(answerTo(request.id, message).bytes);
    log.debug('answer to no open request dropped', { id });
    return Promise.resolve();
  }

  async function fail({ id, message }: OpenRequest, error: unknown): Promise<void> {
    const { failure, fatal } = explain(error);
    if (requests.take(id)) {
      log.warn('request failed', { what: message.method, reason: failure.message });
      // If the era is unknown, this is the answer of a legacy server, so that the assistant continues with `initialize` and
      // shows the reason to the person.
      const code = message.method === 'server/discover' ? -32601 : failure.code;
      await writer.write(errorAnswer(id, { ...failure, code }).bytes);
    }
    if (!fatal || fault) return;
    fault = { error };
    await Promise.all(requests.all().map((other) => fail(other, error)));
    over.abort();
  }

  async function handleRequest(message: Message, id: string): Promise<void> {
    const request = requests.open(message, id);
    if (!request) {
      const failure = { code: -32600, message: 'a request with this id is still open' };
      return writer.write(errorAnswer(id, failure).bytes);
    }
    // A subscription stays open.
    const isSubscription = message.method === 'subscriptions/listen';
    const done = isSubscription ? undefined : pending.add(message.bytes.length);
    try {
      await carry(request);
    } finally {
      done?.();
    }
  }

  async function carry(request: OpenRequest): Promise<void> {
    const { message } = request;
    const { signal } = request.controller;
    const turn = handshake;
    if (message.method === 'initialize') {
      listening?.abort();
      waitFor(turn ? turn.then(async () => request.done()) : request.done());
    }
    if (turn) await turn;
    if (signal.aborted) return;
    try {
      await upstream.send(message, deliver, signal);
    } catch (error) {
      if (!signal.aborted) await fail(request, error);
    }
  }

  async function notify(message: Message): Promise<void> {
    if (message.kind === 'response') pending.answered(message.id ?? 'null');
    const done = pending.add(message.bytes.length);
    const sent = (handshake ?? Promise.resolve())
      .then(() => upstream.send(message, deliver, over.signal))
      .catch((error: unknown) => {
        const { failure } = explain(error);
        log.warn('message not delivered', { what: message.method, reason: failure.message });
      })
      .finally(done);
    track(sent);
    const ready = message.method === 'notifications/initialized';
    if (ready) waitFor(sent);
    await sent;
    if (!ready || over.signal.aborted) return;
    listening?.abort();
    listening = new AbortController();
    await upstream.listen(deliver, AbortSignal.any([listening.signal, over.signal]));
  }

  /** Cancels at the server: a modern one sees the closed stream, a legacy one gets the message. */
  async function cancel(message: Message): Promise<void> {
    const requestId = cancelledId(message);
    if (requestId === undefined) return;
    const request = requests.find(requestId);
    if (!request) return notify(message);
    requests.take(request.id);
    if (modernVersion(request.message) === undefined) await notify(message);
    request.controller.abort();
  }

  function cancelledId(message: Message): string | undefined {
    try {
      return textAt(message, 'params', 'requestId') ?? 'null';
    } catch (error) {
      if (!(error instanceof JsonError)) throw error;
      log.warn('cancellation dropped', { reason: explain(error).failure.message });
      return undefined;
    }
  }

  async function take(line: Buffer | LongLine): Promise<void> {
    let message: Message;
    try {
      if (!Buffer.isBuffer(line))
        throw new MessageError(-32600, `a message can have at most ${maxMessageBytes} bytes`);
      message = readMessage(line);
    } catch (error) {
      if (!(error instanceof MessageError)) throw error;
      const id = Buffer.isBuffer(line) ? undefined : identify(line);
      return writer.write(
        errorAnswer(id ?? 'null', { code: error.code, message: error.message }).bytes,
      );
    }
    const { kind, id, method } = message;
    if (
      isRefusing &&
      pending.isFull() &&
      kind !== 'response' &&
      method !== 'notifications/cancelled'
    )
      return refuse(message);
    if (kind === 'request' && id !== undefined) await handleRequest(message, id);
    else if (method === 'notifications/cancelled') await cancel(message);
    else await notify(message);
  }

  /** Refuses a message. Reads nothing else until the assistant has received the refusal. */
  async function refuse({ id, method }: Message): Promise<void> {
    log.warn('message refused: too many are open', { what: method });
    if (id === undefined) return;
    const failure = { code: -32000, message: 'too many open requests; try again later' };
    refusal = writer.write(errorAnswer(id, failure).bytes);
    await refusal;
  }

  function begin(line: Buffer | LongLine): void {
    limitYoungGeneration();
    take(line).catch((error: unknown) => {
      fault = { error };
      over.abort();
    });
  }

  /** At the end: answers an open request with an error, and aborts it at the server. */
  function giveUp({ id, message, controller }: OpenRequest): void {
    requests.take(id);
    const outcomeUnknown = message.method === 'tools/call';
    const ended = new UpstreamError('no_answer', 'the proxy stopped before the response arrived', {
      ...(outcomeUnknown && { outcomeUnknown }),
    });
    void writer.write(errorAnswer(id, explain(ended).failure).bytes);
    controller.abort();
  }

  /** Makes later messages wait for `work`. */
  function waitFor(work: Promise<unknown>): void {
    handshake = work;
    // One turn later, so that no message overtakes those that waited.
    void work
      .then(() => undefined)
      .then(() => {
        if (handshake === work) handshake = undefined;
      });
  }

  /** The work that the end of stdin waits for. Subscriptions never end, so it does not wait for them. */
  function unfinished(): Promise<unknown>[] {
    const awaited = requests
      .all()
      .filter(({ message }) => message.method !== 'subscriptions/listen');
    return [...busy, ...awaited.map(async (request) => request.done())];
  }

  function track(work: Promise<unknown>): void {
    busy.add(work);
    void work.finally(() => busy.delete(work));
  }

  async function readAll(): Promise<void> {
    const lines = lineCutter(maxMessageBytes);
    for await (const chunk of input) {
      lines.take(chunk).forEach(begin);
      await refusal;
      if (pending.isFull()) await pending.whenReadable(over.signal);
      isRefusing = pending.isFull();
    }
    const last = lines.rest();
    if (last) begin(last);
    const enough = clock.sleep(graceMs, over.signal).then(() => true);
    for (let work = unfinished(); work.length > 0 && !over.signal.aborted; work = unfinished())
      if (await Promise.race([enough, Promise.allSettled(work).then(() => false)])) return;
  }

  await Promise.race([readAll(), ...[stop, writer.gone, over.signal].map(aborted)]);
  over.abort();
  requests.all().forEach(giveUp);
  await Promise.race([upstream.close(AbortSignal.timeout(closeMs)), clock.sleep(closeMs)]);
  writer.flush();
  if (fault) throw fault.error;
}

/** A request of the assistant without an answer so far. */
type OpenRequest = {
  /** The JSON text of its id, as the assistant wrote it. */
  id: string;
  message: Message;
  controller: AbortController;
  /** Resolves when it has been answered or given up. */
  done(): Promise<void>;
};

/** The requests without an answer. The code that takes one out answers it. */
interface OpenRequests {
  /** Returns `undefined` if a request with that id is open already. */
  open(message: Message, id: string): OpenRequest | undefined;

  find(id: string): OpenRequest | undefined;

  /** Returns `undefined` if there is no such request. */
  take(id: string): OpenRequest | undefined;

  all(): OpenRequest[];
}

function openRequests(): OpenRequests {
  const requests = new Map<string, OpenRequest>();
  /** Created on demand: most requests are never waited for. */
  const ends = new Map<OpenRequest, PromiseWithResolvers<void>>();

  async function end(request: OpenRequest): Promise<void> {
    if (requests.get(idKey(request.id)) !== request) return;
    const known = ends.get(request) ?? Promise.withResolvers<void>();
    ends.set(request, known);
    await known.promise;
  }

  return {
    open(message, id) {
      const key = idKey(id);
      if (requests.has(key)) return undefined;
      const request: OpenRequest = {
        id,
        message,
        controller: new AbortController(),
        done: async () => end(request),
      };
      requests.set(key, request);
      return request;
    },
    find: (id) => requests.get(idKey(id)),
    take(id) {
      const key = idKey(id);
      const request = requests.get(key);
      if (!request) return undefined;
      requests.delete(key);
      ends.get(request)?.resolve();
      ends.delete(request);
      return request;
    },
    all: () => [...requests.values()],
  };
}
