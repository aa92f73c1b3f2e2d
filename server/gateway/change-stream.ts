import type { EndSignal } from '#model/ending';
import { changedObject } from 'latchkey-mcp/json-edit';
import { type Message, messageOf, objectAt, spanAt } from 'latchkey-mcp/message';
import {
  acknowledgement,
  type Changes,
  allChanged,
  changesIn,
  filterOf,
} from 'latchkey-mcp/subscriptions';
import {
  type ClientDescription,
  legacyTasks,
  modernRequest,
  subscriptionId,
} from 'latchkey-mcp/translation';
import {
  type Inbox,
  carriesMessages,
  inboxFor,
  messagesLetGo,
  modernPost,
} from './adapter-messages.ts';
import { progress, type TaskTokens } from './legacy-tasks.ts';
import { changeIn } from './link-listeners.ts';
import { ReopenPauses } from './live-stream.ts';
import type { Upstream } from './upstream.ts';

const acknowledgementTimeoutMs = 30_000;
const maxUris = 1000;
const maxUriLength = 8192;
/** For all URIs of a session together, because a caller may have a thousand sessions. */
const maxCharacters = 64 * 1024;
const logMessage = 'notifications/message';

/** A listener and its request. */
interface Reader {
  readonly inbox: Inbox;
  readonly upstream: Upstream;
  readonly signal: EndSignal;
}

interface Leg {
  readonly cut: AbortController;
  /** The acknowledged changes; `undefined` if no acknowledgement came within `acknowledgementTimeoutMs` or before the stream ended. */
  readonly honoured: PromiseWithResolvers<Changes | undefined>;
  /** The acknowledged stream that this stream replaces. The older one ends once this one is acknowledged. */
  before: Leg | undefined;
  isAcknowledged?: boolean;
  /** The stream that replaces this one. */
  after?: Leg;
  isOver?: boolean;
}

/**
 * One `subscriptions/listen` at a modern upstream for all notifications that a legacy caller receives: lists, and the
 * resources it subscribed to. When the subscription changes, a second stream is opened, and the first ends only once
 * the second is acknowledged, so that nothing is lost. A broken stream is reopened, and everything it covers is
 * reported as changed.
 *
 * MCP 2026-07-28 subscriptions
 */
export class ChangeStream {
  readonly #client: () => ClientDescription;
  readonly #tasks: TaskTokens | undefined;
  readonly #uris = new Set<string>();
  readonly #pauses = new ReopenPauses();
  #lists: readonly string[] = [];
  #reader: Reader | undefined;
  #current: Leg | undefined;
  #count = 0;
  /** Changes may have been missed, because a stream broke off and none has been acknowledged since. */
  #hasGap = false;

  /** Pass `tasks` if the upstream is a collection whose members have legacy tasks: the caller then gets the progress of its own tasks. */
  constructor(client: () => ClientDescription, tasks?: TaskTokens) {
    this.#client = client;
    this.#tasks = tasks;
  }

  /**
   * Notifications until `signal` aborts or another reader takes over. `lists` are the lists whose changes the caller
   * may learn of.
   */
  async *follow(
    lists: readonly string[],
    { upstream, signal }: Pick<Reader, 'upstream' | 'signal'>,
  ): AsyncGenerator<Message> {
    const inbox = inboxFor(upstream);
    const reader = { inbox, upstream, signal };
    this.#reader?.inbox.end();
    this.#reader = reader;
    this.#lists = lists;
    const stop = () => this.#left(reader);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    this.#open();
    try {
      for (let next = await reader.inbox.next(); next; next = await reader.inbox.next()) yield next;
    } finally {
      signal.removeEventListener('abort', stop);
      stop();
      inbox.rest();
    }
  }

  /** Subscribes to a resource; `false` if the upstream does not report its changes, or the session has too many subscriptions. */
  async subscribe(uri: string): Promise<boolean> {
    if (uri.length > maxUriLength || !this.#hasRoomFor(uri)) return false;
    this.#uris.add(uri);
    let leg = this.#open();
    // Without a listener there is no one to notify; the stream is opened when the caller listens.
    if (!leg) return true;
    let honoured = await leg.honoured.promise;
    // Another subscription may replace the stream before it is acknowledged.
    while (!honoured && leg.after) {
      leg = leg.after;
      honoured = await leg.honoured.promise;
    }
    // If the listener left in the meantime, the subscription is kept for the next one.
    if (honoured?.uris.includes(uri) || (!honoured && !this.#reader)) return true;
    this.#uris.delete(uri);
    return false;
  }

  unsubscribe(uri: string): void {
    if (this.#uris.delete(uri)) this.#open();
  }

  /** Replaces the stream after the client description changed, such as its log level. */
  renew(): void {
    if (this.#current) this.#open();
  }

  #hasRoomFor(uri: string): boolean {
    const others = new Set(this.#uris).add(uri);
    const characters = [...others].reduce((sum, { length }) => sum + length, 0);
    return others.size <= maxUris && characters <= maxCharacters;
  }

  close(): void {
    this.#reader?.inbox.end();
    this.#reader = undefined;
    this.#open();
  }

  #left(reader: object): void {
    if (this.#reader !== reader) return;
    this.#reader.inbox.end();
    this.#reader = undefined;
    this.#hasGap = false;
    this.#cut(this.#current);
    this.#current = undefined;
  }

  /** Ends a stream, and the earlier streams that it would have replaced. */
  #cut(last: Leg | undefined): void {
    for (let leg = last; leg; leg = leg.before) leg.cut.abort();
  }

  /** Opens a stream for the current subscriptions, to replace the previous stream. */
  #open(): Leg | undefined {
    const current = this.#current;
    const wanted = { lists: this.#lists, uris: [...this.#uris] };
    const reader = this.#reader;
    const isNothing = wanted.lists.length + wanted.uris.length === 0 && !this.#tasks;
    if (!reader || isNothing) {
      this.#cut(current);
      this.#current = undefined;
      return undefined;
    }
    // At most one stream waits to be acknowledged, however often the subscription changes.
    const isWaiting = current && !current.isAcknowledged && !current.isOver;
    const before = isWaiting ? current.before : current;
    if (isWaiting) current.cut.abort();
    const honoured = Promise.withResolvers<Changes | undefined>();
    const leg: Leg = { cut: new AbortController(), honoured, before };
    if (current) current.after = leg;
    this.#current = leg;
    void this.#run(leg, wanted, reader.upstream);
    return leg;
  }

  async #run(leg: Leg, wanted: Changes, upstream: Upstream): Promise<void> {
    let honoured: Changes | undefined;
    let isRefused = false;
    const late = setTimeout(
      () => leg.honoured.resolve(undefined),
      acknowledgementTimeoutMs,
    ).unref();
    try {
      const answer = await upstream.send({
        ...modernPost(this.#request(wanted), leg.cut.signal),
        giveUp: (refusal) => leg.cut.abort(refusal),
      });
      isRefused = !carriesMessages(answer);
      for await (const message of isRefused ? [] : messagesLetGo(answer)) {
        if (message.envelope.kind === 'response') isRefused = !honoured;
        else if (message.envelope.method === acknowledgement) {
          honoured = changesIn(objectAt(message, 'params', 'notifications'));
          this.#cut(leg.before);
          leg.before = undefined;
          leg.isAcknowledged = true;
          this.#pauses.opened();
          leg.honoured.resolve(honoured);
          if (this.#hasGap) allChanged(honoured).forEach((changed) => this.#tell(changed));
          this.#hasGap = false;
        } else if (message.envelope.kind === 'notification') this.#tell(message);
      }
    } catch {
      // The stream broke off. It is reopened below if the caller still listens.
    }
    clearTimeout(late);
    leg.isOver = true;
    leg.honoured.resolve(undefined);
    const { signal } = this.#reader ?? {};
    // Nothing is watched until the stream that is to replace this one is acknowledged.
    if (this.#current?.before === leg && !leg.cut.signal.aborted) this.#hasGap = true;
    if (this.#current !== leg || !signal) return;
    // The stream that this one was to replace goes on, unless it ended in the meantime.
    const before = leg.before?.isOver ? undefined : leg.before;
    const isCovered = isRefused && leg.before === before;
    this.#current = before;
    if (isCovered) return;
    this.#hasGap = true;
    await this.#pauses.pause(signal);
    if (this.#current === before && this.#reader && !signal.aborted) this.#open();
  }

  #tell(message: Message): void {
    const change = changeIn(message);
    // No caller can have subscribed to such a long URI.
    if (change && change.uri.length > maxUriLength) return;
    const { method } = message.envelope;
    const news = this.#tasks && method === progress ? this.#tasks.told(message) : message;
    if (!news) return;
    const told = withoutSubscription(change?.message ?? news);
    this.#reader?.inbox.push(told, change?.key, { isLog: method === logMessage });
  }

  #request(wanted: Changes): Message {
    this.#count += 1;
    const _meta = this.#tasks && { [legacyTasks]: true };
    const params = JSON.stringify({ notifications: filterOf(wanted), _meta });
    const text = `{"jsonrpc":"2.0","id":"listens-${this.#count}","method":"subscriptions/listen","params":${params}}`;
    return modernRequest(messageOf(text), this.#client());
  }
}

function withoutSubscription(message: Message): Message {
  const { body, envelope } = message;
  const meta = spanAt(message, 'params', '_meta');
  if (!meta) return message;
  const _meta = changedObject(body, meta, { [subscriptionId]: undefined });
  const params = changedObject(body, envelope.params, {
    _meta: _meta === '{}' ? undefined : _meta,
  });
  return messageOf(changedObject(body, envelope.root, { params }));
}
