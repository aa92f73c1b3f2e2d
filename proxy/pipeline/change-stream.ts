import { backOffs, pauseMs } from '#clock/back-off';
import { aborted, type Clock } from '#clock/clock';
import { type Envelope, modernRequest } from './translated-messages.ts';
import { readMessage, textAt, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import { UpstreamError, type Deliver, type Upstream } from '#transport/upstream';

/** The lists and resources whose changes the server agreed to report. */
type Honoured = { kinds: string[]; uris: string[] };

/** One `subscriptions/listen`, linked to the subscription that it replaces and to the one that replaces it. */
type Subscription = {
  stop: AbortController;
  /** The changes that the server agreed to report; `undefined` if the stream ended before the acknowledgement. */
  acknowledged: PromiseWithResolvers<Honoured | undefined>;
  /** The subscription that this one replaces. Unset once this one is acknowledged. */
  before: Subscription | undefined;
  isAcknowledged?: boolean;
  /** The subscription that replaces this one. */
  after?: Subscription;
  hasEnded?: boolean;
};

/** Where notifications go, until `signal` aborts. */
type Audience = { deliver: Deliver; signal: AbortSignal };

/** Kinds of lists, by the member of a subscription's filter. */
const kinds: Readonly<Record<string, string>> = {
  toolsListChanged: 'tools',
  promptsListChanged: 'prompts',
  resourcesListChanged: 'resources',
};
const acknowledgement = 'notifications/subscriptions/acknowledged';
/** A stream that stayed open for this long did not fail: the next pause is the shortest one again. */
const steadySeconds = 30;

/**
 * The notifications of a modern server about changes, as a legacy assistant expects them.
 *
 * One `subscriptions/listen` covers everything: the lists in `listed` (`tools`, `prompts`, `resources`) and the resources that
 * the assistant subscribed to. When that changes, a new stream is opened, and the old one ends when the server acknowledges the
 * new one, so that no notification is lost in between. A stream that broke off is opened again, and then all that it covers is
 * reported as changed.
 *
 * MCP 2026-07-28 subscriptions
 */
export class ChangeStream {
  readonly #listed: readonly string[];
  readonly #envelope: () => Envelope;
  readonly #ports: { upstream: Upstream; clock: Clock; log: Log };
  readonly #uris = new Set<string>();
  #audience: Audience | undefined;
  #current: Subscription | undefined;
  #requests = 0;
  /** The number of streams that broke off since one last stayed open for `steadySeconds`. */
  #failures = 0;
  /** Changes may have been missed, because a stream broke off and none has been acknowledged since. */
  #hasGap = false;

  constructor(
    listed: readonly string[],
    envelope: () => Envelope,
    ports: { upstream: Upstream; clock: Clock; log: Log },
  ) {
    this.#listed = listed;
    this.#envelope = envelope;
    this.#ports = ports;
  }

  /** Delivers notifications until `signal` aborts. */
  async follow(deliver: Deliver, signal: AbortSignal): Promise<void> {
    this.#audience = { deliver, signal };
    this.#open();
    await aborted(signal);
  }

  /** Resolves to `false` if the server does not report changes of this resource. */
  async subscribe(uri: string): Promise<boolean> {
    this.#uris.add(uri);
    let subscription = this.#open();
    // The stream is opened once the assistant listens.
    if (!subscription) return true;
    let honoured = await subscription.acknowledged.promise;
    // Another subscription may replace the stream before it is acknowledged.
    while (!honoured && subscription.after) {
      subscription = subscription.after;
      honoured = await subscription.acknowledged.promise;
    }
    if (honoured?.uris.includes(uri)) return true;
    this.#uris.delete(uri);
    return false;
  }

  unsubscribe(uri: string): void {
    if (this.#uris.delete(uri)) this.#open();
  }

  /** Opens a stream for everything that is wanted now. It replaces the current one. */
  #open(): Subscription | undefined {
    const request = this.#request();
    const current = this.#current;
    if (!this.#audience || !request) {
      stop(current);
      this.#current = undefined;
      return undefined;
    }
    // At most one stream waits to be acknowledged, however often the subscription changes.
    const isWaiting = current && !current.isAcknowledged && !current.hasEnded;
    const before = isWaiting ? current.before : current;
    if (isWaiting) current.stop.abort();
    const acknowledged = Promise.withResolvers<Honoured | undefined>();
    const subscription = { stop: new AbortController(), acknowledged, before };
    if (current) current.after = subscription;
    this.#current = subscription;
    void this.#run(subscription, request, this.#audience);
    return subscription;
  }

  #request(): Message | undefined {
    const filter: Record<string, unknown> = {};
    for (const [member, kind] of Object.entries(kinds))
      if (this.#listed.includes(kind)) filter[member] = true;
    if (this.#uris.size > 0) filter['resourceSubscriptions'] = [...this.#uris];
    if (Object.keys(filter).length === 0) return undefined;
    this.#requests += 1;
    const params = JSON.stringify({ notifications: filter });
    const bytes = `{"jsonrpc":"2.0","id":"latchkey-listens-${this.#requests}","method":"subscriptions/listen","params":${params}}`;
    return modernRequest(readMessage(Buffer.from(bytes)), this.#envelope());
  }

  async #run(
    subscription: Subscription,
    request: Message,
    { deliver, signal }: Audience,
  ): Promise<void> {
    const { upstream, clock, log } = this.#ports;
    const openedAt = clock.now();
    let honoured: Honoured | undefined;
    let refused = false;
    const take: Deliver = async (message) => {
      if (message.method === acknowledgement) {
        honoured = honouredBy(message);
        stop(subscription.before);
        subscription.before = undefined;
        subscription.isAcknowledged = true;
        const hasGap = this.#hasGap;
        this.#hasGap = false;
        if (hasGap) await reportAll(honoured, deliver);
        subscription.acknowledged.resolve(honoured);
      } else if (message.kind === 'notification') await deliver(message);
      else if (message.members.has('error')) refused = true;
    };
    try {
      await upstream.send(request, take, AbortSignal.any([signal, subscription.stop.signal]));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      log.debug('subscription broke off', { reason });
      refused = error instanceof UpstreamError && error.code === 'unauthorized';
    }
    subscription.hasEnded = true;
    subscription.acknowledged.resolve(undefined);
    // Nothing is watched until the subscription that is to replace this one is acknowledged.
    const isReplaced = this.#current?.before === subscription;
    if (isReplaced && !subscription.stop.signal.aborted) this.#hasGap = true;
    if (this.#current !== subscription || signal.aborted) return;
    // The subscription that this one was to replace continues, unless that has ended as well.
    const before = subscription.before?.hasEnded ? undefined : subscription.before;
    const isCovered = refused && subscription.before === before;
    this.#current = before;
    const nothing = honoured && honoured.kinds.length + honoured.uris.length === 0;
    if (isCovered || nothing) return;
    this.#hasGap = true;
    if (honoured && clock.now() - openedAt >= steadySeconds) this.#failures = 0;
    this.#failures += 1;
    await clock.sleep(pauseMs(backOffs.subscription, this.#failures - 1), signal);
    if (this.#current === before && !signal.aborted) this.#open();
  }
}

/** Stops a subscription, and those that it was to replace. */
function stop(last: Subscription | undefined): void {
  for (let each = last; each; each = each.before) each.stop.abort();
}

function honouredBy(acknowledged: Message): Honoured {
  const filter: Record<string, unknown> = JSON.parse(
    textAt(acknowledged, 'params', 'notifications') ?? '{}',
  );
  const subscribed = filter['resourceSubscriptions'];
  return {
    kinds: Object.entries(kinds).flatMap(([member, kind]) =>
      filter[member] === true ? [kind] : [],
    ),
    uris: Array.isArray(subscribed) ? subscribed.map(String) : [],
  };
}

/** While no stream was open, anything may have changed. */
async function reportAll({ kinds: lists, uris }: Honoured, deliver: Deliver): Promise<void> {
  const notices = [
    ...lists.map((kind) => ({ method: `notifications/${kind}/list_changed` })),
    ...uris.map((uri) => ({ method: 'notifications/resources/updated', params: { uri } })),
  ];
  for (const notice of notices)
    await deliver(readMessage(Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...notice }))));
}
