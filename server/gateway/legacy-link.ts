import { randomUUID } from 'node:crypto';
import { BriefMap } from 'latchkey-mcp/brief-map';
import type { EndSignal } from '#model/ending';
import { postHeaders, traceHeaders } from 'latchkey-mcp/headers';
import {
  type Message,
  errorTo,
  messageOf,
  readMessage,
  resultTo,
  stringAt,
  textAt,
  valueAt,
} from 'latchkey-mcp/message';
import { SseEvents } from 'latchkey-mcp/sse';
import { allChanged } from 'latchkey-mcp/subscriptions';
import { logLevels, severityOf, taskStatus } from 'latchkey-mcp/translation';
import { carriesMessages, maxKeptBytes, messagesLetGo } from './adapter-messages.ts';
import { discardAnswer, endUpstreamSession, failure, wholeBody } from './answers.ts';

import { freeBytes, type GiveUp } from './body-memory.ts';
import { type CallOptions, LegacyCall, type LegacyCallPorts } from './legacy-call.ts';
import { LegacyTasks, progress, TaskMap, withProgressToken } from './legacy-tasks.ts';
import { LinkListeners } from './link-listeners.ts';
import { unaskedStream } from './unasked-stream.ts';
import { post, type Upstream, type UpstreamAnswer, type UpstreamRequest } from './upstream.ts';
import {
  askableMethods,
  type Handshake,
  handshakeHeaders,
  initializedNotification,
} from './upstream-handshake.ts';

const requestTimeoutMs = 30_000;
const tellTimeoutMs = 10_000;
const once = { once: true };
/** How long a question is held while another request is in progress that may need the response. */
const heldMs = 1000;
const mostHeld = 4;
/** The requests of callers that can be answered with a question. MCP 2026-07-28 basic/patterns/mrtr */
const asking: ReadonlySet<string> = new Set([
  'tools/call',
  'prompts/get',
  'resources/read',
  // A method of the legacy era, in whose answer a task asks for the input that it needs.
  'tasks/result',
]);

/**
 * The state of a request: in progress, over with its one response, refused because its session is gone, or refused with an HTTP
 * error.
 */
export type Started =
  | { readonly outcome: 'started'; readonly call: LegacyCall }
  | { readonly outcome: 'answered'; readonly response: Message }
  | { readonly outcome: 'lost' }
  | { readonly outcome: 'refused'; readonly answer: UpstreamAnswer };

/** The parts of a caller's request that a call for it needs. */
export interface CallersRequest extends Pick<CallOptions, 'hold' | 'giveUp' | 'task'> {
  readonly headers: UpstreamRequest['headers'];
  /** Aborted when the caller disconnected. */
  readonly signal: EndSignal;
}

/**
 * A handshake with a legacy upstream and its session, for one owner and one of their clients. Messages go to the call
 * they belong to; others go to listeners, or, if they are questions, to the latest call whose caller is waiting.
 *
 * A question is never dropped, because a call at the upstream waits for the response. That may not be the call that
 * gets the question: over stdio, upstreams do not say which call asks. If the call that got it ends before its caller
 * was asked, the question goes to another call. Only calls of some methods can be asked. Upstreams ask for roots at any
 * time, mostly right after the handshake, so a question for roots waits for the next call that can be asked.
 *
 * MCP 2025-11-25 lifecycle, transports
 */
export class LegacyLink {
  /** The upstream's answer to `initialize`. */
  readonly initialized: Message;
  readonly listeners: LinkListeners;
  readonly tasks: LegacyTasks;
  readonly #upstream: Upstream;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #hasSession: boolean;
  readonly #canAsk: ReadonlySet<string>;
  readonly #calls = new BriefMap<string, LegacyCall>();
  /** The callers' tokens for the progress of tasks, by the ids of the requests that began them. */
  readonly #taskTokens = new TaskMap<string>();
  /** Questions for the next call that can be asked. */
  readonly #held = new Set<Message>();
  readonly #closed = new AbortController();
  readonly #callPorts: LegacyCallPorts = {
    tell: (message) => this.tell(message),
    over: (call) => {
      this.#calls.delete(call.id);
      for (const left of call.rest()) this.#route(left);
    },
  };
  /** The lowest severity that the upstream was asked to log. Until it is asked, the upstream itself decides. */
  #logsFrom = logLevels.size;
  #loggingSet: Promise<unknown> | undefined;
  #listening: Promise<boolean> | undefined;
  #lastId = 0;

  constructor(handshake: Handshake, tasks = new LegacyTasks()) {
    const { upstream, client, initialized, sessionId } = handshake;
    this.initialized = initialized;
    this.#upstream = upstream;
    this.#hasSession = sessionId !== undefined;
    this.#headers = {
      ...postHeaders,
      ...handshakeHeaders(handshake),
    };
    this.#canAsk = askableMethods(client);
    this.listeners = new LinkListeners(this);
    this.tasks = tasks;
  }

  /** Completes the handshake. */
  async begin(): Promise<void> {
    await this.#post(messageOf(initializedNotification));
  }

  /**
   * Asks the upstream to log from this level on, unless it was asked for a lower level. Requests with different levels share the link,
   * and each gets only the messages from its own level on. Returns `undefined` if there is nothing to wait for.
   *
   * @throws {UpstreamError}
   */
  logFrom(level: string | undefined): Promise<unknown> | undefined {
    if (level === undefined) return undefined;
    const severity = severityOf(level);
    const canLog = valueAt(this.initialized, 'result', 'capabilities', 'logging') !== undefined;
    if (!canLog || severity >= this.#logsFrom) return this.#loggingSet;
    const before = this.#logsFrom;
    this.#logsFrom = severity;
    const setting = this.request('logging/setLevel', JSON.stringify({ level })).then(
      () => {
        if (this.#loggingSet === setting) this.#loggingSet = undefined;
      },
      (error: unknown) => {
        this.#logsFrom = before;
        if (this.#loggingSet === setting) this.#loggingSet = undefined;
        throw error;
      },
    );
    this.#loggingSet = setting;
    return setting;
  }

  get isBusy(): boolean {
    return this.#calls.size > 0 || this.listeners.size > 0;
  }

  /**
   * An id for `start`, as JSON text. For a request about a task, it is unique among all links, because it is also the progress token, and
   * an upstream without sessions may report the progress of a task to every link.
   */
  nextId({ isOfTask = false } = {}): string {
    if (isOfTask) return JSON.stringify(randomUUID());
    this.#lastId += 1;
    return String(this.#lastId);
  }

  /**
   * Sends a request. The id of `message` comes from `nextId`. A call has started when its answer has begun, or when it
   * gets a message: some upstreams ask a question, and begin their answer only after the response to it.
   */
  start(message: Message, callers: CallersRequest): Promise<Started> {
    const { headers, signal, task } = callers;
    const { id = '', method = '', taskId } = message.envelope;
    if (task && taskId !== undefined) this.tasks.note(taskId);
    const call = this.#open(id, { ...callers, isAskable: asking.has(method) });
    signal.addEventListener('abort', call, once);
    if (signal.aborted) call.cancel();
    // An upstream may send its questions, and news of tasks, on the stream that belongs to no call.
    if (this.#hasSession && (this.#canAsk.size > 0 || task)) void this.listen();
    const { promise, resolve, reject } = Promise.withResolvers<Started>();
    let hasBegun = false;
    call.whenBegun(() => {
      hasBegun = true;
      signal.removeEventListener('abort', call);
      resolve({ outcome: 'started', call });
    });
    // If sending fails after the call has begun, the failure ends the messages of the call.
    this.#send(message, call, traceHeaders(headers)).then(
      (started) => {
        if (hasBegun && started.outcome === 'refused') void discardAnswer(started.answer);
        signal.removeEventListener('abort', call);
        resolve(started);
      },
      (error: unknown) => {
        signal.removeEventListener('abort', call);
        reject(error);
      },
    );
    if (this.#held.size > 0 && call.isAskable) this.#askHeld();
    return promise;
  }

  /** Sends a request that the link itself makes, not a caller; `undefined` if there is no response. `params` is JSON text. */
  async request(method: string, params: string): Promise<Message | undefined> {
    const call = this.#open(this.nextId());
    const text = `{"jsonrpc":"2.0","id":${call.id},"method":${JSON.stringify(method)},"params":${params}}`;
    let isLate = false;
    const giveUp = setTimeout(() => {
      isLate = true;
      call.cancel();
    }, requestTimeoutMs).unref();
    try {
      const started = await this.#send(messageOf(text), call);
      if (started.outcome === 'refused') await discardAnswer(started.answer);
      if (started.outcome === 'answered') return started.response;
      if (started.outcome !== 'started') return undefined;
      return await responseTo(call);
    } catch (error) {
      if (isLate) return undefined;
      throw error;
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
    const send = () => {
      const cut = new AbortController();
      const either = AbortSignal.any([signal, cut.signal]);
      const giveUp: GiveUp = (refusal) => cut.abort(refusal);
      return this.#upstream.send({ method: 'GET', headers, signal: either, giveUp });
    };
    return unaskedStream(send, {
      signal,
      take: (message) => this.#route(message),
      // Anything may have changed during the gap.
      reopened: () =>
        allChanged(this.listeners.wanted()).forEach((notification) => this.#route(notification)),
      over: () => this.listeners.end(),
    });
  }

  async #post(message: Message): Promise<void> {
    const signal = AbortSignal.timeout(tellTimeoutMs);
    await discardAnswer(await this.#upstream.send(post(message, this.#headers, signal)));
  }

  #open(id: string, callers?: CallersRequest & { readonly isAskable: boolean }): LegacyCall {
    const call = new LegacyCall(id, this.#callPorts, {
      isCallers: callers !== undefined,
      isAskable: callers?.isAskable ?? false,
      hold: callers?.hold ?? this.#upstream.hold,
      giveUp: callers?.giveUp,
      task: callers?.task,
    });
    this.#calls.set(id, call);
    return call;
  }

  async #send(
    message: Message,
    call: LegacyCall,
    more: UpstreamRequest['headers'] = {},
  ): Promise<Started> {
    const headers = { ...this.#headers, ...more };
    try {
      const given = await this.#upstream.send({
        ...post(message, headers, call.ended),
        giveUp: (refusal) => call.giveUp(refusal),
      });
      const answer = given.status === 400 && this.#hasSession ? await arrived(given) : given;
      if (this.#hasSession && isSessionGone(answer)) {
        call.fail(failure(answer));
        await discardAnswer(answer);
        return { outcome: 'lost' };
      }
      if (!carriesMessages(answer)) {
        call.fail(failure(answer));
        return { outcome: 'refused', answer };
      }
      const response = onlyResponse(answer, call);
      if (response) {
        this.#noteTask(call, response);
        call.answered();
        return { outcome: 'answered', response };
      }
      void this.#read(answer, call);
      return { outcome: 'started', call };
    } catch (error) {
      call.fail(error);
      throw error;
    }
  }

  /** Reads the upstream's messages on the stream of one call. */
  async #read(answer: UpstreamAnswer, call: LegacyCall): Promise<void> {
    try {
      for await (const message of messagesLetGo(answer)) this.#route(message, call);
      call.inbox.end();
    } catch (error) {
      call.inbox.end(error);
    }
  }

  #route(message: Message, about?: LegacyCall): void {
    const { kind, id = '', method = '' } = message.envelope;
    if (kind === 'response') {
      if (id !== about?.id) return;
      this.#noteTask(about, message);
      about.answer(message);
    } else if (kind === 'request') this.#ask(message, about);
    else if (this.listeners.take(message)) return;
    else if (method === 'notifications/message' && !about && this.listeners.takeLog(message))
      return;
    else if (method === taskStatus) this.#tellOfTask(message, about);
    else if (method !== progress) this.#fitting('isOpen', about)?.push(message);
    else {
      const call = this.#calls.get(textAt(message, 'params', 'progressToken') ?? '');
      if (call?.isOpen) call.push(message);
      else this.#tellOfTask(message, about);
    }
  }

  /** Notes the task, if any, that `response` reports as begun. The progress of the task continues under the token of the request. */
  #noteTask({ id, task }: LegacyCall, response: Message): void {
    const taskId = task && stringAt(response, 'result', 'task', 'taskId');
    if (taskId === undefined) return;
    this.tasks.note(taskId);
    if (task?.progressToken !== undefined) this.#taskTokens.set(id, task.progressToken);
  }

  /** Passes a message about a task to `about`, if that is an open call about a task; otherwise to the listeners of the owner's tasks. */
  #tellOfTask(message: Message, about: LegacyCall | undefined): void {
    if (about?.task && about.isOpen) about.push(message);
    else {
      const news = this.taskNews(message);
      if (news) this.tasks.tell(news);
    }
  }

  /** The status of a task of the owner, or its progress under the caller's token; `undefined` for other messages. */
  taskNews(message: Message): Message | undefined {
    if (message.envelope.method === taskStatus) {
      return this.tasks.has(stringAt(message, 'params', 'taskId')) ? message : undefined;
    }
    const token = this.#taskTokens.get(textAt(message, 'params', 'progressToken') ?? '');
    return token === undefined ? undefined : withProgressToken(message, token);
  }

  #ask(question: Message, about?: LegacyCall): void {
    const { id = '', method = '' } = question.envelope;
    if (method === 'ping') return this.tell(resultTo(id, '{}'));
    const call = this.#canAsk.has(method) ? this.#fitting('isAskable', about) : undefined;
    if (call) this.#put(question, call);
    else if (this.#canAsk.has(method) && method === 'roots/list' && this.#held.size < mostHeld)
      this.#hold(question);
    else this.tell(errorTo(id, -32601, 'Method not found'));
  }

  #put(question: Message, call: LegacyCall): void {
    const { id = '' } = question.envelope;
    if (question.body.length > maxKeptBytes)
      this.tell(errorTo(id, -32602, `a request to the client may have ${maxKeptBytes} bytes`));
    else if (!call.push(question))
      this.tell(errorTo(id, -32603, 'too many requests are waiting for the client'));
  }

  /** Keeps a question for the next call that can be asked. Refuses it after `heldMs` if an open call may be waiting for the response. */
  #hold(question: Message): void {
    this.#held.add(question);
    setTimeout(() => {
      const isNeeded = [...this.#calls.values()].some(({ isOpen }) => isOpen);
      if (!isNeeded || !this.#held.delete(question)) return;
      this.tell(errorTo(question.envelope.id ?? '', -32601, 'Method not found'));
    }, heldMs).unref();
  }

  #askHeld(): void {
    const held = [...this.#held];
    this.#held.clear();
    for (const question of held) this.#ask(question);
  }

  /**
   * Returns `about` if it is open or askable, as `is` requires; otherwise the latest call that is, preferably one whose caller is
   * not being asked.
   */
  #fitting(is: 'isOpen' | 'isAskable', about: LegacyCall | undefined): LegacyCall | undefined {
    if (about?.[is]) return about;
    const open = [...this.#calls.values()].filter((call) => call[is]);
    return open.findLast(({ isAsked }) => !isAsked) ?? open.at(-1);
  }
}

async function arrived(answer: UpstreamAnswer): Promise<UpstreamAnswer> {
  return { ...answer, body: await wholeBody(answer.body, maxKeptBytes) };
}

/**
 * Whether the upstream does not know the session. The specification requires 404; the examples of the SDK, and therefore many
 * servers, answer 400 with a message about the session.
 */
function isSessionGone({ status, body }: UpstreamAnswer): boolean {
  if (status !== 400 || !(body instanceof Uint8Array)) return status === 404;
  return /"message":\s?"[^"]*\bsession\b/i.test(Buffer.from(body).toString('latin1'));
}

/**
 * The response to a call in a short answer that has arrived whole and contains nothing else; `undefined` for any other
 * answer, or if the call already got messages or was ended.
 */
function onlyResponse({ mediaType, body }: UpstreamAnswer, call: LegacyCall): Message | undefined {
  if (!(body instanceof Uint8Array) || body.length > freeBytes || !call.isWaiting) return undefined;
  const only = mediaType === 'text/event-stream' ? onlyData(body) : body;
  const message = only && readMessage(only);
  const { kind, id } = message?.envelope ?? {};
  return kind === 'response' && id === call.id ? message : undefined;
}

/** The data of the only event that has any; `undefined` if there is none, or more than one. */
function onlyData(stream: Uint8Array): Uint8Array | undefined {
  let only: Uint8Array | undefined;
  for (const { data } of new SseEvents({ maxBytes: freeBytes }).push(stream)) {
    if (data.length === 0) continue;
    if (only) return undefined;
    only = data;
  }
  return only;
}

async function responseTo({ inbox }: LegacyCall): Promise<Message | undefined> {
  for (let message = await inbox.next(); message; message = await inbox.next()) {
    if (message.envelope.kind === 'response') return message;
  }
  return undefined;
}
