import { randomUUID } from 'node:crypto';
import type { Clock } from '#clock/clock';
import {
  answerTo,
  errorAnswer,
  idKey,
  modernVersion,
  readMessage,
  stringAt,
  textAt,
  type Message,
} from 'latchkey-mcp/raw-message';
import { jsonMembers, type Span } from 'latchkey-mcp/json';
import { withMembers } from 'latchkey-mcp/json-edit';
import { clientRequests, logLevels, maxInputRequests } from 'latchkey-mcp/translation';
import type { Log } from '#log/log';
import { type Upstream, type Deliver, UpstreamError } from '#transport/upstream';
import { ChangeStream } from './change-stream.ts';
import {
  discover,
  envelopeOf,
  initializeAnswer,
  modernRequest,
  type Envelope,
  legacyAnswer,
} from './translated-messages.ts';

type TranslatedUpstreamPorts = { upstream: Upstream; clock: Clock; log: Log };

/** The results of the handshake. */
type Handshake = { initialize: Message; subscribable: boolean; changes: ChangeStream };

/** Legacy notifications that have no counterpart in the modern era. */
const dropped = new Set([
  'notifications/initialized',
  'notifications/cancelled',
  'notifications/progress',
  'notifications/roots/list_changed',
]);

/**
 * Speaks MCP 2026-07-28 to `upstream` for an assistant that speaks up to 2025-11-25. Every request carries what the assistant
 * sent once, in its handshake. Input that the server requires from the assistant comes as a result, and is requested from the
 * assistant. Values that need no translation keep their bytes.
 */
export function translatedUpstream(ports: TranslatedUpstreamPorts): TranslatedUpstream {
  return new TranslatedUpstream(ports);
}

class TranslatedUpstream implements Upstream {
  readonly #ports: TranslatedUpstreamPorts;
  readonly #requests = new AssistantRequests();
  #handshake: Handshake | undefined;
  #logLevel: string | undefined;

  constructor(ports: TranslatedUpstreamPorts) {
    this.#ports = ports;
  }

  /**
   * The answer to the assistant's `initialize`; `undefined` if the server does not speak the modern era.
   *
   * @throws {UpstreamError} if the server does not answer
   */
  async handshake(initialize: Message, signal: AbortSignal): Promise<Message | undefined> {
    const discovered = await discover(this.#ports.upstream, envelopeOf(initialize), signal);
    if (!discovered) return undefined;
    const announces = (...path: string[]) =>
      textAt(discovered, 'result', 'capabilities', ...path) === 'true';
    const listed = ['tools', 'prompts', 'resources'].filter((kind) =>
      announces(kind, 'listChanged'),
    );
    const changes = new ChangeStream(listed, () => this.#envelope(), this.#ports);
    this.#handshake = { initialize, subscribable: announces('resources', 'subscribe'), changes };
    this.#logLevel = undefined;
    return initializeAnswer(initialize, discovered);
  }

  async send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const { upstream, log } = this.#ports;
    if (!this.#handshake || modernVersion(message) !== undefined)
      return upstream.send(message, deliver, signal);
    if (message.kind === 'response') {
      if (!this.#requests.take(message)) log.debug('answer dropped', { id: message.id });
      return undefined;
    }
    if (message.kind === 'notification') {
      if (dropped.has(message.method ?? '')) return undefined;
      return upstream.send(modernRequest(message, this.#envelope()), deliver, signal);
    }
    const { initialize } = this.#handshake;
    const answer = await this.#ownAnswer(message, this.#handshake);
    if (answer) return deliver(answer);
    return translatedRequest(message, {
      ...this.#ports,
      assistant: this.#requests,
      initialize,
      envelope: this.#envelope(),
      deliver,
      signal,
    });
  }

  async listen(deliver: Deliver, signal: AbortSignal): Promise<void> {
    return this.#handshake?.changes.follow(deliver, signal);
  }

  async close(signal: AbortSignal): Promise<void> {
    return this.#ports.upstream.close(signal);
  }

  #envelope(): Envelope {
    return this.#handshake ? envelopeOf(this.#handshake.initialize, this.#logLevel) : {};
  }

  /** The answer to a request that has no counterpart in the modern era; `undefined` for any other. */
  async #ownAnswer(message: Message, handshake: Handshake): Promise<Message | undefined> {
    const id = message.id ?? 'null';
    const done = readMessage(Buffer.from(`{"jsonrpc":"2.0","id":${id},"result":{}}`));
    switch (message.method ?? '') {
      case 'ping':
        return done;
      case 'logging/setLevel': {
        const level = stringAt(message, 'params', 'level') ?? '';
        if (!logLevels.has(level))
          return errorAnswer(id, { code: -32602, message: 'unknown log level' });
        this.#logLevel = level;
        return done;
      }
      case 'resources/subscribe': {
        const uri = stringAt(message, 'params', 'uri');
        if (uri === undefined) return errorAnswer(id, { code: -32602, message: 'uri is missing' });
        if (handshake.subscribable && (await handshake.changes.subscribe(uri))) return done;
        return errorAnswer(id, {
          code: -32601,
          message: `the server does not report changes of ${uri}`,
        });
      }
      case 'resources/unsubscribe':
        handshake.changes.unsubscribe(stringAt(message, 'params', 'uri') ?? '');
        return done;
      default:
        return undefined;
    }
  }
}

export type { TranslatedUpstream };

type TranslatedRequestPorts = TranslatedUpstreamPorts & {
  assistant: AssistantRequests;
  /** The assistant's handshake. */
  initialize: Message;
  envelope: Envelope;
  deliver: Deliver;
  signal: AbortSignal;
};

const maxRounds = 10;
const pauseMs = 250;

/**
 * Sends a legacy request to a modern server, and delivers the answer. While the server requires input from the assistant, sends the
 * request again, with another id and the input.
 *
 * MCP 2026-07-28 multi round-trip requests
 *
 * @throws {UpstreamError}
 */
async function translatedRequest(message: Message, ports: TranslatedRequestPorts): Promise<void> {
  const { envelope, initialize, clock, deliver, signal } = ports;
  const fail = async (problem: string) =>
    deliver(errorAnswer(message.id ?? 'null', { code: -32603, message: problem }));
  let sent = modernRequest(message, envelope);
  for (let round = 0; ; round += 1) {
    const required = await sendOnce(sent, message, ports);
    if (!required) return;
    if (round >= maxRounds)
      return fail(`the server requested more input after ${maxRounds} rounds`);
    if (required.requests.length > maxInputRequests)
      return fail(`the server requested more than ${maxInputRequests} inputs at once`);
    const input = await collectInput(required, initialize, ports);
    if ('problem' in input) return fail(input.problem);
    const hasInput = required.requests.length > 0;
    if (!hasInput) await clock.sleep(pauseMs, signal);
    const { requestState } = required;
    sent = modernRequest(message, envelope, {
      id: JSON.stringify(`latchkey-${randomUUID()}`),
      params: {
        ...(hasInput && { inputResponses: input.json }),
        ...(requestState !== undefined && { requestState }),
      },
    });
  }
}

/** Sends the request once. Returns the input that the server requires for another round. */
async function sendOnce(
  sent: Message,
  { id, method }: Message,
  { upstream, log, deliver, signal }: TranslatedRequestPorts,
): Promise<RequiredInput | undefined> {
  let required: RequiredInput | undefined;
  const enough = new AbortController();
  const take: Deliver = async (message) => {
    if (message.kind === 'request') return log.warn('request dropped', { what: message.method });
    if (message.kind === 'notification') return deliver(message);
    required = requiredInput(message);
    // The next round does not wait for a server that keeps the stream open.
    if (required) return enough.abort();
    await deliver(answerTo(id ?? 'null', legacyAnswer(message, method)));
  };
  try {
    await upstream.send(sent, take, AbortSignal.any([signal, enough.signal]));
  } catch (error) {
    if (!required) throw error;
  }
  return required;
}

/** The input that a server requires from the assistant before it continues. */
type RequiredInput = {
  /** `key` is the server's name for the input; `params` is JSON text. */
  requests: { key: string; method: string; params: string }[];
  /** JSON text that the server gets back unchanged. */
  requestState: string | undefined;
};

/**
 * The input that an answer of a modern server requires; `undefined` if the answer is complete. Reads at most one request more
 * than `maxInputRequests`, which is enough to know that there are too many.
 *
 * MCP 2026-07-28 multi round-trip requests
 */
function requiredInput(answer: Message): RequiredInput | undefined {
  if (stringAt(answer, 'result', 'resultType') !== 'input_required') return undefined;
  const { bytes } = answer;
  const at = (span: Span | undefined) => span && jsonMembers(bytes, span);
  const text = (span: Span | undefined) => span && bytes.toString('utf8', span.start, span.end);
  const result = at(answer.members.get('result'));
  const members = [...(at(result?.get('inputRequests')) ?? [])].slice(0, maxInputRequests + 1);
  const requests = members.map(([key, span]) => {
    const request = at(span);
    const method: unknown = JSON.parse(text(request?.get('method')) ?? 'null');
    const params = legacyParams(text(request?.get('params')));
    return { key, method: typeof method === 'string' ? method : '', params };
  });
  return { requests, requestState: text(result?.get('requestState')) };
}

/** In the legacy era, an elicitation of a URL has an id. MCP 2025-11-25 elicitation */
function legacyParams(json: string | undefined): string {
  if (!json?.includes('"url"')) return json ?? '{}';
  const params: { mode?: unknown; elicitationId?: unknown } = JSON.parse(json);
  if (params.mode !== 'url' || params.elicitationId !== undefined) return json;
  const bytes = Buffer.from(json);
  const span = { start: 0, end: bytes.length };
  return withMembers(bytes, span, { elicitationId: JSON.stringify(randomUUID()) }).toString();
}

/** The assistant's answers as the JSON text of `inputResponses`, or why there are none. */
type CollectedInput = { json: string } | { problem: string };

/**
 * Requests all required input from the assistant in parallel, if the capabilities in `initialize` allow it. If one request
 * fails, the others are cancelled.
 *
 * MCP 2026-07-28 multi round-trip requests
 *
 * @throws {UpstreamError} `aborted`
 */
async function collectInput(
  { requests }: RequiredInput,
  initialize: Message,
  {
    assistant,
    deliver,
    signal,
  }: { assistant: AssistantRequests; deliver: Deliver; signal: AbortSignal },
): Promise<CollectedInput> {
  const ended = new AbortController();
  const until = AbortSignal.any([signal, ended.signal]);
  const isSupported = ({ method }: { method: string }) => {
    const capability = clientRequests.get(method);
    return (
      capability !== undefined &&
      textAt(initialize, 'params', 'capabilities', capability) !== undefined
    );
  };
  const unsupported = requests.find((request) => !isSupported(request));
  if (unsupported)
    return {
      problem: `the server requires ${unsupported.method}, which the assistant does not support`,
    };
  try {
    const members = await Promise.all(
      requests.map(async ({ key, ...request }) => {
        const answer = await assistant.send(request, deliver, until);
        const result = textAt(answer, 'result');
        const why = stringAt(answer, 'error', 'message') ?? '';
        if (result === undefined)
          throw new Unanswered(`the assistant did not answer ${request.method}: ${why}`);
        return `${JSON.stringify(key)}:${result}`;
      }),
    );
    return { json: `{${members.join(',')}}` };
  } catch (error) {
    if (error instanceof Unanswered) return { problem: error.message };
    throw error;
  } finally {
    ended.abort();
  }
}

class Unanswered extends Error {
  override readonly name = 'Unanswered';
}

/** Requests that we send to the assistant, because a modern server cannot. */
class AssistantRequests {
  readonly #waiting = new Map<string, (answer: Message) => void>();
  #count = 0;

  /**
   * Sends a request (`params` is JSON text) to the assistant, and resolves to its answer. When `signal` aborts, the request is
   * cancelled at the assistant.
   *
   * @throws {UpstreamError} `aborted`
   */
  async send(
    { method, params }: { method: string; params: string },
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<Message> {
    const id = JSON.stringify(`latchkey-asks-${(this.#count += 1)}`);
    const name = JSON.stringify(method);
    const request = `{"jsonrpc":"2.0","id":${id},"method":${name},"params":${params}}`;
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const stop = () => reject(new UpstreamError('aborted', 'aborted'));
    promise.catch(() => undefined);
    this.#waiting.set(idKey(id), resolve);
    signal.addEventListener('abort', stop, { once: true });
    try {
      await deliver(readMessage(Buffer.from(request)));
      if (signal.aborted) stop();
      return await promise;
    } catch (error) {
      if (this.#waiting.has(idKey(id))) await deliver(cancellation(id));
      throw error;
    } finally {
      this.#waiting.delete(idKey(id));
      signal.removeEventListener('abort', stop);
    }
  }

  /** Takes an answer from the assistant. Returns `false` if it answers none of our requests. */
  take(answer: Message): boolean {
    const resolve = this.#waiting.get(idKey(answer.id ?? 'null'));
    resolve?.(answer);
    return resolve !== undefined;
  }
}

function cancellation(id: string): Message {
  const params = `{"requestId":${id},"reason":"the request that needed it has ended"}`;
  return readMessage(
    Buffer.from(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`),
  );
}
