/*
 * Notifications for a legacy caller about its tasks at a legacy member of a collection: their status, and their progress, which outlives
 * the request that began the task. `LegacyLink` receives them from the member, and `LegacySessionOverModern` passes them to the caller.
 *
 * MCP 2025-11-25 tasks, progress
 */
import { randomBytes } from 'node:crypto';
import { LimitedMap } from '#model/limited-map';
import { changedObject } from 'latchkey-mcp/json-edit';
import { maxIdBytes, type Message, messageOf, spanAt, textAt } from 'latchkey-mcp/message';
import type { Inbox } from './adapter-messages.ts';

/** The most tasks of one owner, and of one session. Limited, because no message tells reliably when a task is over. */
const mostTasks = 1000;
/** The most characters of all names and values together. */
const mostLetters = 64 * 1024;

/** Data about tasks, by id or token. An id or token over `maxIdBytes` is not kept, to save memory, so its task gets no news. */
export class TaskMap<Value extends string | true> extends LimitedMap<string, Value> {
  #letters = 0;

  constructor() {
    super(mostTasks);
  }

  override set(name: string, value: Value): this {
    const isShort = name.length <= maxIdBytes && String(value).length <= maxIdBytes;
    if (!isShort) return this;
    super.set(name, value);
    this.#letters += name.length + String(value).length;
    for (const oldest of this.keys()) {
      if (this.#letters <= mostLetters) break;
      this.delete(oldest);
    }
    return this;
  }

  override delete(name: string): boolean {
    const value = this.get(name);
    if (value === undefined || !super.delete(name)) return false;
    this.#letters -= name.length + String(value).length;
    return true;
  }
}

export const progress = 'notifications/progress';

/** Whether a request begins a task, or is about one. */
export function isOfTask(request: Message): boolean {
  const { method = '' } = request.envelope;
  return method.startsWith('tasks/') || beginsTask(request);
}

function beginsTask(request: Message): boolean {
  return spanAt(request, 'params', 'task') !== undefined;
}

/** Replaces the token of a progress notification, or of a request that asks for progress. `progressToken` is JSON text. */
export function withProgressToken(message: Message, progressToken: string): Message {
  const { body, envelope } = message;
  const isNews = envelope.method === progress;
  const inside = isNews
    ? { progressToken }
    : { _meta: changedObject(body, envelope.meta, { progressToken }) };
  const params = changedObject(body, spanAt(message, 'params'), inside);
  return messageOf(changedObject(body, envelope.root, { params }));
}

/**
 * The tasks of one owner at one upstream. An upstream without sessions may report all tasks to everyone, so a task counts only if a
 * request of the owner began or named it. All links of the owner share them, because a link is replaced when its server is changed.
 */
export class LegacyTasks {
  readonly #ids = new TaskMap<true>();
  readonly #listeners = new Set<Inbox>();

  note(taskId: string): void {
    this.#ids.set(taskId, true);
  }

  has(taskId: string | undefined): boolean {
    return taskId !== undefined && this.#ids.has(taskId);
  }

  /** Call the returned function to unsubscribe. */
  listen(inbox: Inbox): () => void {
    this.#listeners.add(inbox);
    return () => this.#listeners.delete(inbox);
  }

  tell(news: Message): void {
    for (const inbox of this.#listeners) inbox.push(news);
  }
}

/**
 * The progress tokens of the tasks of one session. Callers number their requests, and all sessions of a caller share the links to members,
 * so each task gets a token that no other session has.
 */
export class TaskTokens {
  readonly #prefix = randomBytes(12).toString('base64url');
  /** The callers' tokens, by the tokens that replace them. Both are JSON text. */
  readonly #callers = new TaskMap<string>();
  #count = 0;

  /** The request to send: with a token of this session's own if it begins a task and asks for progress. */
  sent(request: Message): Message {
    const { progressToken } = request.envelope;
    if (progressToken === undefined || !beginsTask(request)) return request;
    this.#count += 1;
    const own = JSON.stringify(`${this.#prefix}.${this.#count}`);
    this.#callers.set(own, progressToken);
    return this.#callers.has(own) ? withProgressToken(request, own) : request;
  }

  /** Progress of a task under the caller's own token; `undefined` for a token that `sent` did not issue. */
  told(news: Message): Message | undefined {
    const callers = this.#callers.get(textAt(news, 'params', 'progressToken') ?? '');
    return callers === undefined ? undefined : withProgressToken(news, callers);
  }
}
