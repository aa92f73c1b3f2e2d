import { type Message, stringAt, textAt, valueAt } from 'latchkey-mcp/message';
import { type Changes, filterMembers } from 'latchkey-mcp/subscriptions';
import { Inbox } from './adapter-messages.ts';

/** Each is a request to the upstream, and one message of a caller must not cause an unlimited number of them. */
const maxUris = 1000;

/** What listeners need of a link. */
export interface ListenedLink {
  readonly initialized: Message;
  listen(): Promise<boolean>;
  request(method: string, params: string): Promise<Message | undefined>;
}

export interface Listener {
  /** The accepted part of what was requested. */
  readonly honoured: Changes;
  readonly inbox: Inbox;
}

/** The listeners of one link, each with its own subscription. */
export class LinkListeners {
  readonly #link: ListenedLink;
  readonly #listeners = new Set<Listener>();
  /** The number of listeners per resource. */
  readonly #uris = new Map<string, number>();

  constructor(link: ListenedLink) {
    this.#link = link;
  }

  get size(): number {
    return this.#listeners.size;
  }

  /** Adds a listener for as much of `wanted` as the upstream announces, until `signal` aborts. */
  async add(wanted: Changes, signal: AbortSignal): Promise<Listener> {
    const announces = (...path: string[]) =>
      valueAt(this.#link.initialized, 'result', 'capabilities', ...path) === true;
    const isThere = await this.#link.listen();
    const lists = isThere ? wanted.lists.filter((list) => announces(list, 'listChanged')) : [];
    const uris: string[] = [];
    const may = isThere && announces('resources', 'subscribe');
    for (const uri of may ? new Set(wanted.uris.slice(0, maxUris)) : []) {
      if (signal.aborted) break;
      if (await this.#subscribe(uri)) uris.push(uri);
    }
    const listener = { honoured: { lists, uris }, inbox: new Inbox() };
    this.#listeners.add(listener);
    return listener;
  }

  /** Removes a listener, and the subscriptions that no other listener has. */
  async remove(listener: Listener): Promise<void> {
    if (!this.#listeners.delete(listener)) return;
    listener.inbox.end();
    for (const uri of listener.honoured.uris) await this.#unsubscribe(uri);
  }

  /** Passes a change notification to its listeners; `false` for other messages. */
  take(message: Message): boolean {
    const { method = '' } = message.envelope;
    const list = /^notifications\/(\w+)\/list_changed$/.exec(method)?.[1] ?? '';
    const isOfList = Object.hasOwn(filterMembers, list);
    if (!isOfList && method !== 'notifications/resources/updated') return false;
    const uri = stringAt(message, 'params', 'uri') ?? '';
    for (const { honoured, inbox } of this.#listeners) {
      const isWanted = isOfList ? honoured.lists.includes(list) : honoured.uris.includes(uri);
      if (isWanted) inbox.push(message);
    }
    return true;
  }

  /** The union of all subscriptions. */
  wanted(): Changes {
    const all = [...this.#listeners].map(({ honoured }) => honoured);
    return {
      lists: [...new Set(all.flatMap(({ lists }) => lists))],
      uris: [...new Set(all.flatMap(({ uris }) => uris))],
    };
  }

  end(): void {
    for (const { inbox } of this.#listeners) inbox.end();
    this.#listeners.clear();
  }

  async #subscribe(uri: string): Promise<boolean> {
    const count = this.#uris.get(uri) ?? 0;
    this.#uris.set(uri, count + 1);
    if (count > 0) return true;
    const response = await this.#link.request('resources/subscribe', JSON.stringify({ uri }));
    if (response && textAt(response, 'result') !== undefined) return true;
    this.#uris.delete(uri);
    return false;
  }

  async #unsubscribe(uri: string): Promise<void> {
    const count = (this.#uris.get(uri) ?? 0) - 1;
    if (count > 0) return void this.#uris.set(uri, count);
    this.#uris.delete(uri);
    await this.#link.request('resources/unsubscribe', JSON.stringify({ uri }));
  }
}
