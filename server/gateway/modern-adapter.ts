import type { EndSignal } from '#model/ending';
import { randomBytes } from 'node:crypto';

import type { Clock } from '#model/clock';
import { LimitedMap } from '#model/limited-map';
import { changedObject } from 'latchkey-mcp/json-edit';
import {
  type Message,
  errorTo,
  messageOf,
  objectAt,
  spanAt,
  stringAt,
  textAt,
  valueAt,
} from 'latchkey-mcp/message';
import { acknowledged, changesIn, subscriptionEnd } from 'latchkey-mcp/subscriptions';
import {
  type ClientDescription,
  clientOf,
  clientTextsOf,
  discoverResult,
  givenResponse,
  inputRequiredResult,
  legacyRequest,
  legacyTasks,
  modernResult,
  modernStatus,
  rootsChanged,
  severityOf,
  subscriptionId,
  taskStatus,
} from 'latchkey-mcp/translation';
import { answerOf, emptyAnswer, jsonOf, streamOf } from './adapter-messages.ts';
import type { AdaptedCall } from './call.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import type { LegacyCall } from './legacy-call.ts';
import type { LegacyLink } from './legacy-link.ts';
import { LegacyLinks } from './legacy-links.ts';
import { isOfTask, progress, withProgressToken } from './legacy-tasks.ts';
import { messageIn, type Upstream, type UpstreamAnswer, type UpstreamRequest } from './upstream.ts';

/** Legacy methods without a modern counterpart. */
const legacyOnly = /^(?:initialize|ping|logging\/setLevel|resources\/(?:un)?subscribe)$/;

/** A client description is kept as long as its handshake, so its size is limited. */
const maxClientLetters = 64 * 1024;
/** The most client descriptions that calls share, and the longest that they share, in characters. */
const maxShared = 1000;
const maxSharedLetters = 4096;

/**
 * Adapts legacy upstreams for modern callers: the gateway makes the handshake, the upstream's questions become
 * results that require input, and its notifications a subscription. Sessions, states and subscriptions belong to
 * their owner.
 *
 * MCP 2025-11-25 and 2026-07-28 transports
 */
export class ModernAdapter {
  /** Interrupted calls belong to a link, and end with it. */
  readonly links: LegacyLinks;
  readonly #interrupted: InterruptedCalls;
  /** By the JSON texts that describe them. */
  readonly #clients = new LimitedMap<string, ClientDescription>(maxShared);

  /** `instance` identifies this process where several nodes share a database. States contain it: see `instanceOfState`. */
  constructor(clock: Clock, instance?: string) {
    this.links = new LegacyLinks(clock);
    this.#interrupted = new InterruptedCalls(instance);
  }

  /**
   * The answer to a POST; `undefined` if the upstream does not speak the legacy era either.
   *
   * @throws {UpstreamError} if the upstream cannot be asked
   * @throws {GatewayRefusal} `not_theirs`, `too_many_requests`, `bad_params`
   */
  async send(request: UpstreamRequest, caller: AdaptedCall): Promise<UpstreamAnswer | undefined> {
    const { signal } = request;
    const message = messageIn(request);
    const { kind, id = 'null', method = '', progressToken } = message?.envelope ?? {};
    // If the caller is a member of a collection: the collection passes on legacy messages about roots and tasks unchanged.
    const isMember = caller.admission.proved.type === 'member';
    if (message && kind === 'notification' && method === rootsChanged && isMember) {
      const link = this.links.open(caller, this.#client(message));
      link?.tell(messageOf(`{"jsonrpc":"2.0","method":"${rootsChanged}"}`));
    }
    // Modern callers cancel by closing the stream; other notifications have no counterpart.
    if (!message || kind !== 'request') return emptyAnswer();
    if (legacyOnly.test(method) || (method.startsWith('tasks/') && !isMember))
      return jsonOf(errorTo(id, -32601, 'Method not found'), 404);
    const state = message.envelope.requestState && stringAt(message, 'params', 'requestState');
    if (state !== undefined) return this.#goOn(message, state, caller, signal);
    const client = this.#client(message);
    for (let attempt = 1; ; attempt++) {
      const linked = this.links.link(caller, client);
      const link = linked instanceof Promise ? await linked : linked;
      if (!link) return undefined;
      if (method === 'server/discover') {
        const tasks = valueAt(link.initialized, 'result', 'capabilities', 'tasks');
        const more = isMember && tasks !== undefined ? { [legacyTasks]: tasks } : {};
        return jsonOf(discoverResult(link.initialized, id, more));
      }
      const logging = link.logFrom(client.logLevel);
      if (logging) await logging;
      if (method === 'subscriptions/listen') {
        const { logLevel } = client;
        const { upstream } = caller;
        const options = { signal, upstream, logLevel, hearsTasks: isMember };
        return streamOf(listening(link, message, options));
      }
      const task = isMember && isOfTask(message) ? { progressToken } : undefined;
      const ownId = link.nextId({ isOfTask: task !== undefined });
      const started = await link.start(legacyRequest(message, ownId), {
        headers: request.headers,
        signal,
        hold: caller.upstream.hold,
        giveUp: caller.upstream.giveUp,
        task,
      });
      if (started.outcome === 'answered') {
        const result = modernResult(started.response, method, id);
        return jsonOf(result, modernStatus(result));
      }
      if (started.outcome === 'started')
        return this.#follow(message, { owner: caller.owner, link, call: started.call }, signal);
      if (started.outcome === 'refused') return started.answer;
      // The upstream forgot the session, so it did not execute the request: retry once in a new session.
      this.links.forget(caller.owner, link);
      if (attempt > 1)
        throw new GatewayRefusal('upstream_failed', { detail: 'it does not keep its sessions' });
    }
  }

  /**
   * The client that a request describes. Calls with the same description share one record.
   *
   * @throws {GatewayRefusal} `bad_params`
   */
  #client(message: Message): ClientDescription {
    const { capabilities, clientInfo, logLevel } = clientTextsOf(message);
    // Each part is one JSON value or `undefined`, so different parts make different texts.
    const text = `${capabilities}\n${clientInfo}\n${logLevel}`;
    const known = this.#clients.get(text);
    if (known) return known;
    const client = knownClient(message);
    if (text.length <= maxSharedLetters) this.#clients.set(text, client);
    return client;
  }

  /** Continues the interrupted call that a retry belongs to. */
  async #goOn(
    retry: Message,
    state: string,
    { owner, upstream }: AdaptedCall,
    signal: EndSignal,
  ): Promise<UpstreamAnswer> {
    const interrupted = this.#interrupted.take(state, owner);
    if (!interrupted) throw new GatewayRefusal('not_theirs', { detail: 'requestState' });
    const { call, question } = interrupted;
    const response = givenResponse(retry, question);
    if (!response) return jsonOf(this.#ask(retry, interrupted));
    call.respond(response, upstream.giveUp);
    return this.#follow(retry, interrupted, signal);
  }

  async #follow(
    message: Message,
    { owner, link, call }: { owner: string; link: LegacyLink; call: LegacyCall },
    signal: EndSignal,
  ): Promise<UpstreamAnswer> {
    const ask = (question: Message) => {
      call.ask(question);
      return this.#ask(message, { owner, link, call, question });
    };
    const { logLevel } = this.#client(message);
    const taskNews = call.task && ((news: Message) => link.taskNews(news));
    return answerOf(modernCall(message, call, { ask, logLevel, signal, taskNews }), modernStatus);
  }

  #ask({ envelope: { id = 'null' } }: Message, interrupted: InterruptedCall): Message {
    return inputRequiredResult(interrupted.question, id, this.#interrupted.keep(interrupted));
  }
}

/** @throws {GatewayRefusal} `bad_params` */
function knownClient(message: Message): ClientDescription {
  const client = clientOf(message);
  const { capabilities, clientInfo = '', logLevel = '' } = client;
  if (capabilities.length + clientInfo.length + logLevel.length <= maxClientLetters) return client;
  throw new GatewayRefusal('bad_params', {
    detail: 'params._meta contains too much about the client',
  });
}

export interface ModernCallPorts {
  /** The result that puts a question of the upstream to the caller. */
  readonly ask: (question: Message) => Message;
  /** The lowest level of log messages that the caller wants from the upstream; `undefined` if it wants none. */
  readonly logLevel: string | undefined;
  /** Aborted when the caller disconnected. */
  readonly signal: EndSignal;
  /** Turns a message about a task into the one for the caller; absent for callers that do not know the tasks of the legacy era. */
  readonly taskNews?: ((message: Message) => Message | undefined) | undefined;
}

/** Notifications that only have a meaning in the legacy era. */
const legacyNotifications = /^notifications\/(?:elicitation\/complete|cancelled|initialized)$/;

/**
 * A legacy upstream's messages about one call, translated for a modern caller, until the upstream answers the call or
 * asks a question. After a question, the call is interrupted until the caller returns with a response.
 */
async function* modernCall(
  { envelope: { id = 'null', method = '', progressToken } }: Message,
  call: LegacyCall,
  { ask, logLevel, signal, taskNews }: ModernCallPorts,
): AsyncGenerator<Message> {
  const stop = () => call.cancel();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  let isAsked = false;
  try {
    for (let message = await call.inbox.next(); message; message = await call.inbox.next()) {
      const { kind, method: what = '' } = message.envelope;
      if (kind === 'response') return yield modernResult(message, method, id);
      if (kind === 'request') {
        isAsked = true;
        return yield ask(message);
      }
      const isOwnProgress =
        what === progress && textAt(message, 'params', 'progressToken') === call.id;
      if (isOwnProgress) {
        if (progressToken !== undefined) yield withProgressToken(message, progressToken);
      } else if (what === progress || what === taskStatus) {
        const news = taskNews?.(message);
        if (news) yield news;
      } else if (what === 'notifications/message') {
        if (isLoggedFrom(logLevel, message)) yield message;
      } else if (!legacyNotifications.test(what)) yield message;
    }
    yield errorTo(id, -32603, 'the MCP server ended its response before the result');
  } finally {
    signal.removeEventListener('abort', stop);
    if (!isAsked) call.over();
  }
}

function isLoggedFrom(level: string | undefined, message: Message): boolean {
  return (
    level !== undefined && severityOf(stringAt(message, 'params', 'level')) >= severityOf(level)
  );
}

/**
 * A legacy upstream's notifications as the stream of a `subscriptions/listen`: first the accepted subscription, then
 * changes, and, when the upstream's own stream has ended for good, the end. A request with a log level also gets log messages that
 * belong to no call. A caller of a collection also gets notifications about its tasks.
 *
 * MCP 2026-07-28 subscriptions
 */
export async function* listening(
  link: LegacyLink,
  message: Message,
  {
    signal,
    upstream,
    logLevel,
    hearsTasks = false,
  }: {
    signal: EndSignal;
    upstream: Upstream;
    logLevel?: string | undefined;
    hearsTasks?: boolean;
  },
): AsyncGenerator<Message> {
  const { id = 'null' } = message.envelope;
  const listener = await link.listeners.add(
    changesIn(objectAt(message, 'params', 'notifications')),
    signal,
    upstream,
    logLevel === undefined ? undefined : severityOf(logLevel),
  );
  const { honoured, logsFrom, inbox } = listener;
  const stop = () => inbox.end();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  const hearNoMore = hearsTasks ? link.tasks.listen(inbox) : undefined;
  try {
    yield acknowledged(honoured, id);
    const isOfLists = honoured.lists.length + honoured.uris.length > 0;
    if (isOfLists || logsFrom !== undefined || hearsTasks) {
      for (let change = await inbox.next(); change; change = await inbox.next())
        yield ofSubscription(change, id);
    }
    if (!signal.aborted) yield subscriptionEnd(id);
  } finally {
    signal.removeEventListener('abort', stop);
    hearNoMore?.();
    link.listeners.remove(listener);
  }
}

/** A notification with the id of its subscription. */
function ofSubscription(notification: Message, id: string): Message {
  const { body, envelope } = notification;
  const _meta = changedObject(body, spanAt(notification, 'params', '_meta'), {
    [subscriptionId]: id,
  });
  const params = changedObject(body, envelope.params, { _meta });
  return messageOf(changedObject(body, envelope.root, { params }));
}

const stateBytes = 24;
const waitMs = 600_000;
const maxPerOwner = 100;

/** Distinguishes the states of `InterruptedCalls` from the states of upstreams. */
const statePrefix = 'latchkey.';

/** The process that keeps the interrupted call of this state; `undefined` if the state names none. */
export function instanceOfState(state: string): string | undefined {
  return /^latchkey\.([0-9A-Za-z]{16})\.[\w-]{32}$/.exec(state)?.[1];
}

/** A call whose upstream asked a question and waits for the response. */
export interface InterruptedCall {
  readonly owner: string;
  readonly link: LegacyLink;
  readonly call: LegacyCall;
  readonly question: Message;
}

/**
 * Interrupted calls wait for their caller's response for ten minutes, at most a hundred per owner, with the oldest
 * evicted. A state is valid once and only for its owner.
 */
export class InterruptedCalls {
  readonly #calls = new Map<string, InterruptedCall & { readonly timer: NodeJS.Timeout }>();
  /** The states of each owner, oldest first. */
  readonly #byOwner = new Map<string, Set<string>>();
  readonly #prefix: string;

  constructor(instance?: string) {
    this.#prefix = instance === undefined ? '' : `${statePrefix}${instance}.`;
  }

  get size(): number {
    return this.#calls.size;
  }

  /** Stores a call and returns its state for the caller: 192 random bits. */
  keep(interrupted: InterruptedCall): string {
    const { owner } = interrupted;
    const before = this.#byOwner.get(owner);
    const [oldest] = before ?? [];
    if (oldest !== undefined && (before?.size ?? 0) >= maxPerOwner) this.#giveUp(oldest);
    const state = this.#prefix + randomBytes(stateBytes).toString('base64url');
    const timer = setTimeout(() => this.#giveUp(state), waitMs).unref();
    this.#calls.set(state, { ...interrupted, timer });
    const own = this.#byOwner.get(owner) ?? new Set();
    this.#byOwner.set(owner, own.add(state));
    interrupted.call.ended.addEventListener('abort', () => this.#forget(state), { once: true });
    return state;
  }

  /** Returns `undefined` also for a state that was used or belongs to another owner. */
  take(state: string, owner: string): InterruptedCall | undefined {
    const kept = this.#calls.get(state);
    if (kept?.owner !== owner) return undefined;
    this.#forget(state);
    return kept;
  }

  #giveUp(state: string): void {
    const kept = this.#calls.get(state);
    this.#forget(state);
    kept?.call.cancel();
  }

  #forget(state: string): void {
    const kept = this.#calls.get(state);
    if (!kept) return;
    clearTimeout(kept.timer);
    this.#calls.delete(state);
    const own = this.#byOwner.get(kept.owner);
    own?.delete(state);
    if (own?.size === 0) this.#byOwner.delete(kept.owner);
  }
}
