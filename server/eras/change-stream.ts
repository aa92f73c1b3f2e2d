import { setTimeout as pause } from 'node:timers/promises';

import type { Upstream } from '#gateway/upstream';
import { allChanged, changesIn, filterOf, type Changes } from './change-kinds.ts';
import { subscriptionId, type ClientWords } from './envelope.ts';
import { Inbox } from './inbox.ts';
import { messageOf, objectAt, spanAt, type Message } from './message.ts';
import { modernPost, modernRequest } from './modern-request.ts';
import { carriesMessages, said } from './said.ts';
import { withMembers } from './with-members.ts';

const maxUris = 1000;
const firstRetryMs = 1000;
const longestRetryMs = 30_000;
const acknowledgement = 'notifications/subscriptions/acknowledged';

/** Who listens, and the way by which they do. */
interface Reader {
  readonly inbox: Inbox;
  readonly upstream: Upstream;
  readonly signal: AbortSignal;
}

interface Leg {
  readonly cut: AbortController;
  /** What the upstream honours; `undefined` when it refuses. */
  readonly honoured: PromiseWithResolvers<Changes | undefined>;
}

/**
 * One `subscriptions/listen` at a modern upstream for everything that a caller of the older era is told
 * unasked: lists, and the resources it subscribed to. Another subscription opens another stream, and the one
 * before ends once that is acknowledged, so that nothing is lost in between. A stream that broke off is
 * opened again, and all that it covers is told as changed.
 *
 * MCP 2026-07-28 subscriptions
 */
export class ChangeStream {
  readonly #client: () => ClientWords;
  readonly #uris = new Set<string>();
  #lists: readonly string[] = [];
  #reader: Reader | undefined;
  #current: Leg | undefined;
  #count = 0;

  constructor(client: () => ClientWords) {
    this.#client = client;
  }

  /** What comes, until `signal` aborts; another reader takes this one's place. `lists` may be told of. */
  async *follow(
    lists: readonly string[],
    { upstream, signal }: Pick<Reader, 'upstream' | 'signal'>,
  ): AsyncGenerator<Message> {
    const reader = { inbox: new Inbox(), upstream, signal };
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
    }
  }

  /** `false` when the upstream does not tell of changes of that resource. */
  async subscribe(uri: string): Promise<boolean> {
    if (this.#uris.size >= maxUris) return false;
    this.#uris.add(uri);
    const leg = this.#open();
    // Before the caller listens there is nobody to tell; it is opened then.
    if (!leg) return true;
    const honoured = await leg.honoured.promise;
    if (honoured?.uris.includes(uri)) return true;
    this.#uris.delete(uri);
    return false;
  }

  unsubscribe(uri: string): void {
    if (this.#uris.delete(uri)) this.#open();
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
    this.#current?.cut.abort();
    this.#current = undefined;
  }

  /** Puts a stream for what is wanted now in the place of the one before. */
  #open(attempt = 0): Leg | undefined {
    const before = this.#current;
    const wanted = { lists: this.#lists, uris: [...this.#uris] };
    const reader = this.#reader;
    if (!reader || wanted.lists.length + wanted.uris.length === 0) {
      before?.cut.abort();
      this.#current = undefined;
      return undefined;
    }
    const leg = {
      cut: new AbortController(),
      honoured: Promise.withResolvers<Changes | undefined>(),
    };
    this.#current = leg;
    void this.#run(leg, wanted, { upstream: reader.upstream, before, attempt });
    return leg;
  }

  async #run(
    leg: Leg,
    wanted: Changes,
    { upstream, before, attempt }: { upstream: Upstream; before: Leg | undefined; attempt: number },
  ): Promise<void> {
    let honoured: Changes | undefined;
    let isRefused = false;
    try {
      const answer = await upstream.send(modernPost(this.#request(wanted), leg.cut.signal));
      isRefused = !carriesMessages(answer);
      for await (const message of isRefused ? [] : said(answer)) {
        if (message.envelope.kind === 'response') isRefused = !honoured;
        else if (message.envelope.method === acknowledgement) {
          honoured = changesIn(objectAt(message, 'params', 'notifications'));
          before?.cut.abort();
          leg.honoured.resolve(honoured);
          if (attempt > 0) allChanged(honoured).forEach((told) => this.#tell(told));
        } else if (message.envelope.kind === 'notification')
          this.#tell(withoutSubscription(message));
      }
    } catch {
      // It broke off, or was cut: below it is opened again where somebody still listens.
    }
    leg.honoured.resolve(undefined);
    before?.cut.abort();
    const { signal } = this.#reader ?? {};
    if (this.#current !== leg || !signal || isRefused) return;
    const tries = honoured ? 1 : attempt + 1;
    const waitMs = Math.min(firstRetryMs * 2 ** (tries - 1), longestRetryMs);
    await pause(waitMs, undefined, { signal, ref: false }).catch(() => undefined);
    if (this.#current === leg && this.#reader) this.#open(tries);
  }

  #tell(message: Message): void {
    this.#reader?.inbox.push(message);
  }

  #request(wanted: Changes): Message {
    this.#count += 1;
    const params = JSON.stringify({ notifications: filterOf(wanted) });
    const text = `{"jsonrpc":"2.0","id":"listens-${this.#count}","method":"subscriptions/listen","params":${params}}`;
    return modernRequest(messageOf(text), this.#client());
  }
}

function withoutSubscription(message: Message): Message {
  const { body, envelope } = message;
  const meta = spanAt(message, 'params', '_meta');
  if (!meta) return message;
  const _meta = withMembers(body, meta, { [subscriptionId]: undefined });
  const params = withMembers(body, envelope.params, { _meta: _meta === '{}' ? undefined : _meta });
  return messageOf(withMembers(body, envelope.root, { params }));
}
