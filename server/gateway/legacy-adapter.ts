import { abortSignal, type EndSignal } from '#model/ending';
import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';

import { subscriptionScope } from '#model/scopes';
import {
  type Message,
  errorTo,
  messageOf,
  resultTo,
  stringAt,
  textAt,
  valueAt,
} from 'latchkey-mcp/message';
import { filterMembers } from 'latchkey-mcp/subscriptions';
import {
  type ClientDescription,
  type NeededInput,
  initializeAnswer,
  legacyResult,
  legacyTasks,
  logLevels,
  modernCapabilities,
  modernRequest,
  neededInput,
  maxInputRequests,
  rootsChanged,
} from 'latchkey-mcp/translation';
import {
  answerOf,
  carriesMessages,
  emptyAnswer,
  jsonOf,
  messagesOf,
  modernPost,
  streamOf,
} from './adapter-messages.ts';
import { discardAnswer } from './answers.ts';
import { ChangeStream } from './change-stream.ts';
import type { AdaptedCall } from './call.ts';
import { progress, TaskTokens } from './legacy-tasks.ts';
import { messageIn, type Upstream, type UpstreamAnswer, type UpstreamRequest } from './upstream.ts';
import { askableMethods, discover } from './upstream-handshake.ts';

const sessionIdBytes = 24;
/** The lowest level that a collection logs for a caller that has set none. MCP 2025-11-25 logging leaves this to the server. */
const usualLogLevel = 'info';

/**
 * Adapts modern upstreams for legacy callers: sessions opened by `initialize`, a stream of notifications, and
 * requests to the caller. The upstream holds no session state; every request carries the client description. A
 * session belongs to its owner alone.
 *
 * MCP 2025-11-25 and 2026-07-28 transports
 */
export class LegacyAdapter {
  readonly #sessions = new Map<string, LegacySessionOverModern>();

  /** The number of open sessions. */
  get size(): number {
    return this.#sessions.size;
  }

  /** Whether this id names a session here, of any owner. */
  holds(sessionId: string | undefined): boolean {
    return sessionId !== undefined && this.#sessions.has(sessionId);
  }

  /**
   * Opens a session; `undefined` if the upstream does not speak the modern era.
   *
   * @throws {UpstreamError} if the request fails
   */
  async initialize(
    initialize: Message,
    { upstream, owner, target }: AdaptedCall,
    signal: EndSignal,
  ): Promise<UpstreamAnswer | undefined> {
    const isCollection = target.upstream.kind === 'collection';
    const client = {
      capabilities: modernCapabilities(textAt(initialize, 'params', 'capabilities')),
      clientInfo: textAt(initialize, 'params', 'clientInfo'),
      logLevel: isCollection ? usualLogLevel : undefined,
    };
    const discovered = await discover(upstream, client, signal);
    if (discovered.outcome !== 'modern') return undefined;
    const sessionId = randomBytes(sessionIdBytes).toString('base64url');
    const { answer } = discovered;
    const session = new LegacySessionOverModern({ owner, client, answer, isCollection });
    this.#sessions.set(sessionId, session);
    const tasks = isCollection ? valueAt(answer, 'result', '_meta', legacyTasks) : undefined;
    const more = tasks === undefined ? {} : { tasks };
    return { ...jsonOf(initializeAnswer(initialize, answer, more)), sessionId };
  }

  /** A request within a session. */
  async send(
    request: UpstreamRequest,
    { owner, admission, upstream }: AdaptedCall,
  ): Promise<UpstreamAnswer> {
    const { method, headers, signal } = request;
    const sessionId = headers['mcp-session-id'] ?? '';
    const session = this.#sessions.get(sessionId);
    if (session?.owner !== owner) return emptyAnswer(404);
    if (method === 'DELETE') {
      this.#end(sessionId, session);
      return emptyAnswer(204);
    }
    if (method === 'GET') {
      const lists = session.lists.filter((list) => {
        const scope = subscriptionScope(filterMembers[list] ?? '');
        return scope !== undefined && admission.scopes.includes(scope);
      });
      return streamOf(session.changes.follow(lists, { upstream, signal }));
    }
    const message = messageIn(request);
    if (!message) return emptyAnswer(400);
    const answer = await session.take(message, { upstream, signal, headers });
    // After a 404, the caller considers the session ended and will not delete it.
    if (answer.status === 404) this.#end(sessionId, session);
    return answer;
  }

  #end(sessionId: string, session: LegacySessionOverModern): void {
    this.#sessions.delete(sessionId);
    session.close();
  }

  close(): void {
    for (const session of this.#sessions.values()) session.close();
    this.#sessions.clear();
  }
}

export interface SessionParts {
  readonly owner: string;
  /** The client that sent `initialize`. */
  readonly client: ClientDescription;
  /** The upstream's answer to `server/discover`. */
  readonly answer: Message;
  /** Whether the upstream is a collection, whose members may be legacy servers. */
  readonly isCollection?: boolean;
}

/** The upstream for one request, with the signal and the headers of the request. */
export interface Passage {
  readonly upstream: Upstream;
  /** Aborted when the caller no longer waits. */
  readonly signal: EndSignal;
  readonly headers: UpstreamRequest['headers'];
}

/** A legacy caller's session at a modern upstream, which keeps no state for it. */
class LegacySessionOverModern {
  readonly owner: string;
  /** The lists whose changes the upstream announces. */
  readonly lists: readonly string[];
  readonly changes: ChangeStream;
  readonly #caller = new CallerQuestions();
  /** Requests in progress, by the caller's id as JSON text. */
  readonly #running = new Map<string, AbortController>();
  readonly #isSubscribable: boolean;
  readonly #isCollection: boolean;
  /** Absent unless the upstream is a collection whose members have tasks. */
  readonly #tasks: TaskTokens | undefined;
  #client: ClientDescription;

  constructor({ owner, client, answer, isCollection = false }: SessionParts) {
    const announces = (...path: string[]) =>
      valueAt(answer, 'result', 'capabilities', ...path) === true;
    this.owner = owner;
    this.#client = client;
    this.#isCollection = isCollection;
    this.#isSubscribable = announces('resources', 'subscribe');
    this.lists = Object.keys(filterMembers).filter((list) => announces(list, 'listChanged'));
    const hasTasks = isCollection && valueAt(answer, 'result', '_meta', legacyTasks) !== undefined;
    this.#tasks = hasTasks ? new TaskTokens() : undefined;
    this.changes = new ChangeStream(() => this.#client, this.#tasks);
  }

  /** Handles a message of the caller. */
  async take(message: Message, passage: Passage): Promise<UpstreamAnswer> {
    const { kind, method, requestId } = message.envelope;
    if (kind === 'response') this.#caller.take(message);
    if (kind === 'notification' && method === 'notifications/cancelled') {
      this.#running.get(requestId ?? '')?.abort();
    }
    if (kind === 'notification' && method === rootsChanged && this.#isCollection) {
      const told = modernRequest(message, this.#client);
      await discardAnswer(await passage.upstream.send(modernPost(told, passage.signal)));
    }
    // Other notifications matter only in the legacy era.
    if (kind !== 'request') return emptyAnswer();
    const answer = await this.#answered(message);
    return answer ? jsonOf(answer) : this.#call(message, passage);
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
        if (!logLevels.has(logLevel)) return errorTo(id, -32602, 'unknown log level');
        if (this.#client.logLevel === logLevel) return resultTo(id, '{}');
        this.#client = { ...this.#client, logLevel };
        this.changes.renew();
        return resultTo(id, '{}');
      }
      case 'resources/subscribe': {
        const isTold = this.#isSubscribable && (await this.changes.subscribe(uri));
        if (isTold) return resultTo(id, '{}');
        return errorTo(
          id,
          this.#isSubscribable ? -32602 : -32601,
          'the server does not notify of changes to this resource',
        );
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
    const signal = AbortSignal.any([abortSignal(callers), cancelled.signal]);
    this.#running.set(id, cancelled);
    const over = () => {
      if (this.#running.get(id) === cancelled) this.#running.delete(id);
    };
    try {
      const [client, caller] = [this.#client, this.#caller];
      const asked = this.#tasks?.sent(message) ?? message;
      const sent = modernRequest(asked, client);
      const first = await upstream.send(modernPost(sent, signal, headers));
      if (!carriesMessages(first)) {
        over();
        return first;
      }
      const ports = { upstream, client, caller, signal, headers };
      const messages = toldOfTasks(translatedCall(asked, first, ports), this.#tasks);
      return await answerOf(until(messages, cancelled.signal, over));
    } catch (error) {
      over();
      if (!cancelled.signal.aborted || callers.aborted) throw error;
      // A cancelled request gets no response. MCP 2025-11-25 cancellation
      return streamOf(nothing());
    }
  }
}

/** The messages, with progress of tasks under the caller's own tokens. */
async function* toldOfTasks(
  messages: AsyncGenerator<Message>,
  tasks: TaskTokens | undefined,
): AsyncGenerator<Message> {
  for await (const message of messages) {
    const isProgress = message.envelope.method === progress;
    yield (isProgress && tasks?.told(message)) || message;
  }
}

/** Passes the messages on, and calls `over` at their end. If `cancelled` has aborted, an error is a normal end. */
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

const timeoutMs = 600_000;

/** A question to a caller, and its response. */
export interface Question {
  readonly request: Message;
  /** Rejects when the call ends, or after ten minutes without a response. */
  readonly response: Promise<Message>;
}

/** Requests to legacy callers on behalf of a modern upstream, which cannot make them itself. */
class CallerQuestions {
  readonly #waiting = new Map<string, (response: Message) => void>();
  #last = 0;

  /** `params` is JSON text. */
  ask(method: string, params: string, signal: AbortSignal): Question {
    this.#last += 1;
    const id = JSON.stringify(`latchkey-asks-${this.#last}`);
    const name = JSON.stringify(method);
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const over = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const stop = () => reject(over.reason);
    this.#waiting.set(id, resolve);
    over.addEventListener('abort', stop, { once: true });
    const response = promise.finally(() => {
      this.#waiting.delete(id);
      over.removeEventListener('abort', stop);
    });
    response.catch(() => undefined);
    const text = `{"jsonrpc":"2.0","id":${id},"method":${name},"params":${params}}`;
    return { request: messageOf(text), response };
  }

  /** Handles a response of the caller. A response to no open question is ignored. */
  take(response: Message): void {
    this.#waiting.get(response.envelope.id ?? '')?.(response);
  }
}

const mostRounds = 10;
const pauseMs = 250;

export interface TranslatedCallPorts extends Passage {
  readonly client: ClientDescription;
  readonly caller: CallerQuestions;
  readonly signal: AbortSignal;
}

/**
 * Translates a modern upstream's response to a legacy request. `answer` is the upstream's first answer. If the upstream
 * needs input, the caller is asked and the request is sent again with the responses until it completes.
 *
 * MCP 2026-07-28 "Multi Round-Trip Requests"
 *
 * @throws {UpstreamError}
 */
async function* translatedCall(
  request: Message,
  answer: UpstreamAnswer,
  { upstream, client, caller, signal, headers }: TranslatedCallPorts,
): AsyncGenerator<Message> {
  const { id = 'null', method = '' } = request.envelope;
  const failed = (problem: string) => errorTo(id, -32603, problem);
  let current = answer;
  for (let round = 1; ; round++) {
    let needed: NeededInput | undefined;
    for await (const message of messagesOf(current)) {
      if (message.envelope.kind === 'notification') yield message;
      if (message.envelope.kind !== 'response') continue;
      needed = neededInput(message);
      if (!needed) return yield legacyResult(message, method, id);
      break;
    }
    if (!needed) return yield failed('the MCP server ended its response before the result');
    if (round > mostRounds) return yield failed(`the MCP server requested input too many times`);
    if (needed.requests.length > maxInputRequests)
      return yield failed(`the MCP server requested more than ${maxInputRequests} inputs at once`);
    const answerable = askableMethods(client);
    const beyond = needed.requests.find((asked) => !answerable.has(asked.method));
    if (beyond)
      return yield failed(
        `the MCP server requires ${beyond.method.slice(0, 60)}, which the client does not support`,
      );
    const questions = needed.requests.map(({ method: name, params }) =>
      caller.ask(name, legacyParams(params), signal),
    );
    for (const question of questions) yield question.request;
    const given = await Promise.all(questions.map(({ response }) => response));
    const unanswered = given.find((response) => textAt(response, 'result') === undefined);
    if (unanswered) {
      const why = stringAt(unanswered, 'error', 'message') ?? '';
      return yield failed(
        `the client did not answer a request of the MCP server: ${why.slice(0, 200)}`,
      );
    }
    if (questions.length === 0) await pause(pauseMs, undefined, { signal });
    const sent = modernRequest(request, client, {
      id: JSON.stringify(randomUUID()),
      params: again(needed, given),
    });
    current = await upstream.send(modernPost(sent, signal, headers));
    if (!carriesMessages(current)) return yield failed('the MCP server did not respond');
  }
}

function again({ requests, requestState }: NeededInput, given: readonly Message[]) {
  const responses = requests.map(
    ({ key }, n) => `${JSON.stringify(key)}:${given[n] && textAt(given[n], 'result')}`,
  );
  return {
    ...(requests.length > 0 && { inputResponses: `{${responses.join(',')}}` }),
    ...(requestState !== undefined && { requestState }),
  };
}

/** Before 2026-07-28, URL elicitation requires an id. MCP 2025-11-25 elicitation */
function legacyParams(json: string): string {
  const params: Record<string, unknown> = JSON.parse(json);
  const isPage = params['mode'] === 'url' && params['elicitationId'] === undefined;
  return isPage ? JSON.stringify({ ...params, elicitationId: randomUUID() }) : json;
}
