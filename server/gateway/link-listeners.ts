import type { EndSignal } from '#model/ending';
import { type Message, messageOf, stringAt, textAt, valueAt } from 'latchkey-mcp/message';
import { type Changes, filterMembers } from 'latchkey-mcp/subscriptions';
import { severityOf } from 'latchkey-mcp/translation';
import { type Inbox, inboxFor } from './adapter-messages.ts';
import type { Upstream } from './upstream.ts';

/** Each URI costs a request to the upstream, and one message of a caller must not cause an unlimited number of requests. */
const maxUris = 1000;

/** A longer notification is reduced, and a longer log message dropped, because each listener gets a copy of its own. */
const maxChangeBytes = 64 * 1024;

/** A notification that a list or a resource changed. */
export interface Change {
  readonly message: Message;
  /** The list that changed; empty if a resource changed. */
  readonly list: string;
  readonly uri: string;
  /** Distinguishes it from other changes. */
  readonly key: string;
}

/** The change that a message reports; `undefined` for other messages. A long message is reduced to the members that identify the change. */
export function changeIn(message: Message): Change | undefined {
  const { method = '' } = message.envelope;
  const list = /^notifications\/(\w+)\/list_changed$/.exec(method)?.[1] ?? '';
  const isOfList = Object.hasOwn(filterMembers, list);
  if (!isOfList && method !== 'notifications/resources/updated') return undefined;
  const uri = isOfList ? undefined : stringAt(message, 'params', 'uri');
  const params = uri === undefined ? undefined : { uri };
  const reduced = () => messageOf(JSON.stringify({ jsonrpc: '2.0', method, params }));
  return {
    message: message.body.length > maxChangeBytes ? reduced() : message,
    list: isOfList ? list : '',
    uri: uri ?? '',
    key: `${method} ${uri ?? ''}`,
  };
}

/** The parts of a link that listeners use. */
export interface ListenedLink {
  readonly initialized: Message;
  listen(): Promise<boolean>;
  request(method: string, params: string): Promise<Message | undefined>;
}

export interface Listener {
  /** The accepted part of the requested changes. */
  readonly honoured: Changes;
  /** The lowest severity of the log messages outside calls that it receives; `undefined` if it receives none. */
  readonly logsFrom: number | undefined;
  readonly inbox: Inbox;
}

interface Subscription {
  listeners: number;
  /**
   * Whether the upstream reports the resource's changes, according to the last request about it. Rejects if that
   * request failed.
   */
  isActive: Promise<boolean>;
}

/** The listeners of one link, each with its own subscription. */
export class LinkListeners {
  readonly #link: ListenedLink;
  readonly #listeners = new Set<Listener>();
  /** By resource. */
  readonly #subscriptions = new Map<string, Subscription>();
  #hasEnded = false;

  constructor(link: ListenedLink) {
    this.#link = link;
  }

  get size(): number {
    return this.#listeners.size;
  }

  /**
   * Adds a listener for the part of `wanted` that the upstream supports. Stops subscribing when `signal` aborts.
   * Queued messages count towards the memory limit of the call that `callers` belongs to. With `logsFrom`, the listener also
   * receives log messages of at least that severity.
   *
   * @throws {UpstreamError} if a request to subscribe to a resource fails
   */
  async add(
    wanted: Changes,
    signal: EndSignal,
    callers: Pick<Upstream, 'hold' | 'giveUp'> = {},
    logsFrom?: number,
  ): Promise<Listener> {
    const announces = (...path: string[]) =>
      valueAt(this.#link.initialized, 'result', 'capabilities', ...path) === true;
    const isThere = (await this.#link.listen()) && !this.#hasEnded;
    const lists = isThere ? wanted.lists.filter((list) => announces(list, 'listChanged')) : [];
    const uris: string[] = [];
    const may = isThere && announces('resources', 'subscribe');
    try {
      for (const uri of may ? new Set(wanted.uris.slice(0, maxUris)) : []) {
        if (signal.aborted || this.#hasEnded) break;
        if (await this.#subscribe(uri)) uris.push(uri);
      }
    } catch (error) {
      this.#unsubscribe(uris);
      throw error;
    }
    const listener = {
      honoured: { lists, uris },
      logsFrom: isThere ? logsFrom : undefined,
      inbox: inboxFor(callers),
    };
    if (this.#hasEnded) listener.inbox.end();
    else this.#listeners.add(listener);
    return listener;
  }

  /** Removes a listener, and the subscriptions that no other listener has. */
  remove(listener: Listener): void {
    const isThere = this.#listeners.delete(listener);
    listener.inbox.end();
    listener.inbox.rest();
    if (!isThere) return;
    this.#unsubscribe(listener.honoured.uris);
  }

  /** Passes a change notification to its listeners; `false` for other messages. */
  take(message: Message): boolean {
    const change = changeIn(message);
    if (!change) return false;
    const { list, uri, key } = change;
    for (const { honoured, inbox } of this.#listeners) {
      const isWanted = list === '' ? honoured.uris.includes(uri) : honoured.lists.includes(list);
      if (isWanted) inbox.push(change.message, key);
    }
    return true;
  }

  /** Passes a log message that belongs to no call to the listeners that want it; `false` if no listener wants log messages. */
  takeLog(message: Message): boolean {
    const isLong = message.body.length > maxChangeBytes;
    const severity = severityOf(stringAt(message, 'params', 'level'));
    let isWanted = false;
    for (const { logsFrom, inbox } of this.#listeners) {
      if (logsFrom === undefined) continue;
      isWanted = true;
      if (severity >= logsFrom && !isLong) inbox.push(message, undefined, { isLog: true });
    }
    return isWanted;
  }

  /** The union of all subscriptions. */
  wanted(): Changes {
    const all = [...this.#listeners].map(({ honoured }) => honoured);
    return {
      lists: [...new Set(all.flatMap(({ lists }) => lists))],
      uris: [...new Set(all.flatMap(({ uris }) => uris))],
    };
  }

  /** Ends all listeners, because the upstream's stream has ended. */
  end(): void {
    this.#hasEnded = true;
    for (const { inbox } of this.#listeners) inbox.end();
    this.#listeners.clear();
  }

  /** Subscribes to a resource. All listeners that wait for the same request share its outcome. */
  async #subscribe(uri: string): Promise<boolean> {
    const known = this.#subscriptions.get(uri);
    const one = known ?? { listeners: 0, isActive: Promise.resolve(false) };
    this.#subscriptions.set(uri, one);
    one.listeners += 1;
    if (one.listeners === 1) one.isActive = this.#ask('resources/subscribe', uri, one.isActive);
    try {
      if (await one.isActive) return true;
    } catch (error) {
      this.#leave(uri, one);
      throw error;
    }
    this.#leave(uri, one);
    return false;
  }

  #unsubscribe(uris: readonly string[]): void {
    for (const uri of uris) {
      const one = this.#subscriptions.get(uri);
      if (!one) continue;
      one.listeners -= 1;
      if (one.listeners > 0) continue;
      one.isActive = this.#ask('resources/unsubscribe', uri, one.isActive).then(() => false);
      const over = () => this.#drop(uri, one);
      one.isActive.then(over, over);
    }
  }

  #leave(uri: string, one: Subscription): void {
    one.listeners -= 1;
    this.#drop(uri, one);
  }

  #drop(uri: string, one: Subscription): void {
    const isUnused = one.listeners === 0 && this.#subscriptions.get(uri) === one;
    if (isUnused) this.#subscriptions.delete(uri);
  }

  /** Sends a request about a resource once the previous one is answered, so that the upstream receives them in order. */
  async #ask(method: string, uri: string, before: Promise<boolean>): Promise<boolean> {
    await before.catch(() => undefined);
    const response = await this.#link.request(method, JSON.stringify({ uri }));
    return response !== undefined && textAt(response, 'result') !== undefined;
  }
}
