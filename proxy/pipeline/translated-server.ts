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
import { logLevels, maxInputRequests } from 'latchkey-mcp/translation';
import type { Log } from '#log/log';
import { type Upstream, type Deliver, UpstreamError } from '#transport/upstream';
import { changeStream, type ChangeStream } from './change-stream.ts';
import {
  discover,
  envelopeOf,
  initializeAnswer,
  modernRequest,
  type Envelope,
  legacyAnswer,
} from './translated-messages.ts';

/** A modern server, to be spoken to as one of the older era. */
export interface TranslatedUpstream extends Upstream {
  /**
   * The answer to the assistant's `initialize`; `undefined` when the server does not speak the modern
   * era.
   *
   * @throws {UpstreamError} when the server could not be asked
   */
  meet(initialize: Message, signal: AbortSignal): Promise<Message | undefined>;
}

/** What the handshake left behind. */
type Met = { initialize: Message; subscribable: boolean; changes: ChangeStream };

/** Notifications of the legacy era that a modern server has no use for. */
const unheard = new Set([
  'notifications/initialized',
  'notifications/cancelled',
  'notifications/progress',
  'notifications/roots/list_changed',
]);

/**
 * Speaks MCP 2026-07-28 to `upstream` for an assistant that speaks up to 2025-11-25. What the assistant
 * said once, in its handshake, is said with every request; what the server needs from the assistant
 * comes as a result and is asked for as a request. Values that need no translation stay byte for byte.
 */
export function translatedUpstream(ports: {
  upstream: Upstream;
  clock: Clock;
  log: Log;
}): TranslatedUpstream {
  const { upstream, log } = ports;
  const assistant = askedAssistant();
  let met: Met | undefined;
  let logLevel: string | undefined;

  const envelope = () => (met ? envelopeOf(met.initialize, logLevel) : {});

  async function meet(initialize: Message, signal: AbortSignal): Promise<Message | undefined> {
    const discovered = await discover(upstream, envelopeOf(initialize), signal);
    if (!discovered) return undefined;
    const announces = (...path: string[]) =>
      textAt(discovered, 'result', 'capabilities', ...path) === 'true';
    const listed = ['tools', 'prompts', 'resources'].filter((kind) =>
      announces(kind, 'listChanged'),
    );
    const changes = changeStream(listed, envelope, ports);
    met = { initialize, subscribable: announces('resources', 'subscribe'), changes };
    logLevel = undefined;
    return initializeAnswer(initialize, discovered);
  }

  /** The answer to a request that has no counterpart in the modern era; `undefined` for any other. */
  async function answered(message: Message): Promise<Message | undefined> {
    const id = message.id ?? 'null';
    const done = readMessage(Buffer.from(`{"jsonrpc":"2.0","id":${id},"result":{}}`));
    switch (message.method ?? '') {
      case 'ping':
        return done;
      case 'logging/setLevel': {
        const level = stringAt(message, 'params', 'level') ?? '';
        if (!logLevels.has(level))
          return errorAnswer(id, { code: -32602, message: 'unknown log level' });
        logLevel = level;
        return done;
      }
      case 'resources/subscribe': {
        const uri = stringAt(message, 'params', 'uri');
        if (uri === undefined) return errorAnswer(id, { code: -32602, message: 'uri is missing' });
        if (met?.subscribable && (await met.changes.subscribe(uri))) return done;
        return errorAnswer(id, {
          code: -32601,
          message: `the server does not report changes of ${uri}`,
        });
      }
      case 'resources/unsubscribe':
        met?.changes.unsubscribe(stringAt(message, 'params', 'uri') ?? '');
        return done;
      default:
        return undefined;
    }
  }

  return {
    meet,
    async send(message, deliver, signal) {
      if (!met || modernVersion(message) !== undefined)
        return upstream.send(message, deliver, signal);
      if (message.kind === 'response') {
        if (!assistant.take(message)) log.debug('answer dropped', { id: message.id });
        return undefined;
      }
      if (message.kind === 'notification') {
        if (unheard.has(message.method ?? '')) return undefined;
        return upstream.send(modernRequest(message, envelope()), deliver, signal);
      }
      const answer = await answered(message);
      if (answer) return deliver(answer);
      const { initialize } = met;
      return translatedRequest(message, {
        ...ports,
        assistant,
        initialize,
        envelope: envelope(),
        deliver,
        signal,
      });
    },
    listen: async (deliver, signal) => met?.changes.follow(deliver, signal),
    close: async (signal) => upstream.close(signal),
  };
}

type TranslatedRequestPorts = {
  upstream: Upstream;
  assistant: AskedAssistant;
  /** The assistant's handshake. */
  initialize: Message;
  envelope: Envelope;
  clock: Clock;
  log: Log;
  deliver: Deliver;
  signal: AbortSignal;
};

const mostRounds = 10;
const pauseMs = 250;

/**
 * Sends a request of the older era to a modern server, and again under another id with what the server
 * needs from the assistant, until it is answered; delivers that answer.
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
    const needed = await once(sent, message, ports);
    if (!needed) return;
    if (round >= mostRounds)
      return fail(`the server requested more input after ${mostRounds} rounds`);
    if (needed.requests.length > maxInputRequests)
      return fail(`the server requested more than ${maxInputRequests} inputs at once`);
    const given = await givenInput(needed, initialize, ports);
    if ('problem' in given) return fail(given.problem);
    const asked = needed.requests.length > 0;
    if (!asked) await clock.sleep(pauseMs, signal);
    const { requestState } = needed;
    sent = modernRequest(message, envelope, {
      id: JSON.stringify(`latchkey-${randomUUID()}`),
      params: {
        ...(asked && { inputResponses: given.json }),
        ...(requestState !== undefined && { requestState }),
      },
    });
  }
}

/** One round; what the server needs for another one. */
async function once(
  sent: Message,
  { id, method }: Message,
  { upstream, log, deliver, signal }: TranslatedRequestPorts,
): Promise<NeededInput | undefined> {
  let needed: NeededInput | undefined;
  const enough = new AbortController();
  const take: Deliver = async (message) => {
    if (message.kind === 'request') return log.warn('request dropped', { what: message.method });
    if (message.kind === 'notification') return deliver(message);
    needed = neededInput(message);
    // A server that leaves the stream open behind it does not hold up the next round.
    if (needed) return enough.abort();
    await deliver(answerTo(id ?? 'null', legacyAnswer(message, method)));
  };
  try {
    await upstream.send(sent, take, AbortSignal.any([signal, enough.signal]));
  } catch (error) {
    if (!needed) throw error;
  }
  return needed;
}

/** What a server needs from the assistant before it goes on. */
type NeededInput = {
  /** By the server's own key; `params` is JSON text. */
  requests: { key: string; method: string; params: string }[];
  /** JSON text, to be given back as it is. */
  requestState: string | undefined;
};

/**
 * What an answer of a modern server asks for; `undefined` for one that is complete. At most one request beyond
 * `maxInputRequests` is read, which tells that there are too many.
 *
 * MCP 2026-07-28 multi round-trip requests
 */
function neededInput(answer: Message): NeededInput | undefined {
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

/** Before 2026-07-28 a page that a person is sent to has an id. MCP 2025-11-25 elicitation */
function legacyParams(json: string | undefined): string {
  if (!json?.includes('"url"')) return json ?? '{}';
  const params: { mode?: unknown; elicitationId?: unknown } = JSON.parse(json);
  if (params.mode !== 'url' || params.elicitationId !== undefined) return json;
  const bytes = Buffer.from(json);
  const span = { start: 0, end: bytes.length };
  return withMembers(bytes, span, { elicitationId: JSON.stringify(randomUUID()) }).toString();
}

/** What the assistant answered, as the JSON text of `inputResponses`, or why it cannot be had. */
type GivenInput = { json: string } | { problem: string };

/** The capability without which an assistant is not asked. */
const capabilityOf: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
};

/**
 * Asks the assistant, which said in `initialize` what it can do, for all that a server needs at once.
 * When one request fails the others are withdrawn.
 *
 * MCP 2026-07-28 multi round-trip requests
 *
 * @throws {UpstreamError} `aborted`
 */
async function givenInput(
  { requests }: NeededInput,
  initialize: Message,
  {
    assistant,
    deliver,
    signal,
  }: { assistant: AskedAssistant; deliver: Deliver; signal: AbortSignal },
): Promise<GivenInput> {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const able = ({ method }: { method: string }) =>
    Object.hasOwn(capabilityOf, method) &&
    textAt(initialize, 'params', 'capabilities', capabilityOf[method] ?? '') !== undefined;
  const beyond = requests.find((request) => !able(request));
  if (beyond)
    return {
      problem: `the server requires ${beyond.method}, which the assistant does not support`,
    };
  try {
    const given = await Promise.all(
      requests.map(async ({ key, ...request }) => {
        const answer = await assistant.ask(request, deliver, either);
        const result = textAt(answer, 'result');
        const why = stringAt(answer, 'error', 'message') ?? '';
        if (result === undefined)
          throw new Unanswered(`the assistant did not answer ${request.method}: ${why}`);
        return `${JSON.stringify(key)}:${result}`;
      }),
    );
    return { json: `{${given.join(',')}}` };
  } catch (error) {
    if (error instanceof Unanswered) return { problem: error.message };
    throw error;
  } finally {
    over.abort();
  }
}

class Unanswered extends Error {
  override readonly name = 'Unanswered';
}

/** Requests that are put to the assistant, on behalf of a server that cannot do so itself. */
interface AskedAssistant {
  /**
   * Puts `method` with `params` (JSON text) to the assistant and resolves with its answer. When
   * `signal` aborts, the request is cancelled at the assistant.
   *
   * @throws {UpstreamError} `aborted`
   */
  ask(
    request: { method: string; params: string },
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<Message>;

  /** Takes an answer of the assistant; `false` when it answers nothing of ours. */
  take(answer: Message): boolean;
}

function askedAssistant(): AskedAssistant {
  const waiting = new Map<string, (answer: Message) => void>();
  let asked = 0;
  return {
    async ask({ method, params }, deliver, signal) {
      asked += 1;
      const id = JSON.stringify(`latchkey-asks-${asked}`);
      const name = JSON.stringify(method);
      const request = `{"jsonrpc":"2.0","id":${id},"method":${name},"params":${params}}`;
      const { promise, resolve, reject } = Promise.withResolvers<Message>();
      const stop = () => reject(new UpstreamError('aborted', 'aborted'));
      promise.catch(() => undefined);
      waiting.set(idKey(id), resolve);
      signal.addEventListener('abort', stop, { once: true });
      try {
        await deliver(readMessage(Buffer.from(request)));
        if (signal.aborted) stop();
        return await promise;
      } catch (error) {
        if (waiting.has(idKey(id))) await deliver(withdrawn(id));
        throw error;
      } finally {
        waiting.delete(idKey(id));
        signal.removeEventListener('abort', stop);
      }
    },
    take(answer) {
      const resolve = waiting.get(idKey(answer.id ?? 'null'));
      resolve?.(answer);
      return resolve !== undefined;
    },
  };
}

function withdrawn(id: string): Message {
  const params = `{"requestId":${id},"reason":"the request that needed it has ended"}`;
  return readMessage(
    Buffer.from(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`),
  );
}
