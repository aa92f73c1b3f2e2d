import { backOffs, pauseMs } from '#clock/back-off';
import type { Clock } from '#clock/clock';
import { type Envelope, modernRequest } from './translated-messages.ts';
import { readMessage, textAt, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import { UpstreamError, type Deliver, type Upstream } from '#transport/upstream';

/** What a modern server says unasked, as an assistant of the older era expects it. */
export interface ChangeStream {
  /** Delivers until `signal` aborts. */
  follow(deliver: Deliver, signal: AbortSignal): Promise<void>;

  /** `false` when the server does not tell of changes of that resource. */
  subscribe(uri: string): Promise<boolean>;

  unsubscribe(uri: string): void;
}

type Honoured = { kinds: string[]; uris: string[] };
type Leg = {
  cut: AbortController;
  /** What the server accepts; `undefined` if the stream ended before it said so. */
  acknowledged: PromiseWithResolvers<Honoured | undefined>;
  /** What it replaces, until it is acknowledged. */
  before: Leg | undefined;
  /** What replaces it. */
  after?: Leg;
  isOver?: boolean;
};

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
 * One `subscriptions/listen` for everything that the assistant would be told: the lists in `listed`
 * (`tools`, `prompts`, `resources`) and the resources it subscribed to. Another subscription opens
 * another stream, and the one before ends when that is acknowledged, so that nothing gets lost in
 * between. A stream that broke off is opened again, and all that it covers is told as changed.
 *
 * MCP 2026-07-28 subscriptions
 */
export function changeStream(
  listed: readonly string[],
  envelope: () => Envelope,
  { upstream, clock, log }: { upstream: Upstream; clock: Clock; log: Log },
): ChangeStream {
  const uris = new Set<string>();
  let audience: { deliver: Deliver; signal: AbortSignal } | undefined;
  let current: Leg | undefined;
  let count = 0;
  /** How often in a row a stream ended soon. */
  let failures = 0;

  function request(): Message | undefined {
    const filter: Record<string, unknown> = {};
    for (const [member, kind] of Object.entries(kinds))
      if (listed.includes(kind)) filter[member] = true;
    if (uris.size > 0) filter['resourceSubscriptions'] = [...uris];
    if (Object.keys(filter).length === 0) return undefined;
    count += 1;
    const params = JSON.stringify({ notifications: filter });
    const bytes = `{"jsonrpc":"2.0","id":"latchkey-listens-${count}","method":"subscriptions/listen","params":${params}}`;
    return modernRequest(readMessage(Buffer.from(bytes)), envelope());
  }

  /** Puts a stream for what is wanted now in the place of the one before. */
  function open(isReopened = false): Leg | undefined {
    const asked = request();
    const before = current;
    if (!audience || !asked) {
      cut(before);
      current = undefined;
      return undefined;
    }
    const acknowledged = Promise.withResolvers<Honoured | undefined>();
    const leg: Leg = { cut: new AbortController(), acknowledged, before };
    if (before) before.after = leg;
    current = leg;
    void run(leg, asked, audience, isReopened);
    return leg;
  }

  /** Ends a stream, and those that it was to replace. */
  function cut(last: Leg | undefined): void {
    for (let leg = last; leg; leg = leg.before) leg.cut.abort();
  }

  async function run(
    leg: Leg,
    asked: Message,
    { deliver, signal }: NonNullable<typeof audience>,
    isReopened: boolean,
  ): Promise<void> {
    const openedAt = clock.now();
    let honoured: Honoured | undefined;
    let refused = false;
    const take: Deliver = async (message) => {
      if (message.method === acknowledgement) {
        honoured = honouredBy(message);
        cut(leg.before);
        leg.before = undefined;
        if (isReopened) await tellAll(honoured, deliver);
        leg.acknowledged.resolve(honoured);
      } else if (message.kind === 'notification') await deliver(message);
      else if (message.members.has('error')) refused = true;
    };
    try {
      await upstream.send(asked, take, AbortSignal.any([signal, leg.cut.signal]));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      log.debug('subscription broke off', { reason });
      refused = error instanceof UpstreamError && error.code === 'unauthorized';
    }
    leg.isOver = true;
    leg.acknowledged.resolve(undefined);
    if (current !== leg || signal.aborted) return;
    // What it was to replace goes on, unless it ended in the meantime.
    const before = leg.before?.isOver ? undefined : leg.before;
    const isCovered = refused && leg.before === before;
    current = before;
    const nothing = honoured && honoured.kinds.length + honoured.uris.length === 0;
    if (isCovered || nothing) return;
    if (honoured && clock.now() - openedAt >= steadySeconds) failures = 0;
    failures += 1;
    await clock.sleep(pauseMs(backOffs.subscription, failures - 1), signal);
    if (current === before && !signal.aborted) open(true);
  }

  return {
    async follow(deliver, signal) {
      audience = { deliver, signal };
      open();
      await new Promise<void>((resolve) => {
        if (signal.aborted) resolve();
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    },
    async subscribe(uri) {
      uris.add(uri);
      let leg = open();
      // The stream is opened once the assistant listens.
      if (!leg) return true;
      let honoured = await leg.acknowledged.promise;
      // Another subscription may replace the stream before it is acknowledged.
      while (!honoured && leg.after) {
        leg = leg.after;
        honoured = await leg.acknowledged.promise;
      }
      if (honoured?.uris.includes(uri)) return true;
      uris.delete(uri);
      return false;
    },
    unsubscribe(uri) {
      if (uris.delete(uri)) open();
    },
  };
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

/** While nothing was heard, anything may have changed. */
async function tellAll({ kinds: lists, uris }: Honoured, deliver: Deliver): Promise<void> {
  const notices = [
    ...lists.map((kind) => ({ method: `notifications/${kind}/list_changed` })),
    ...uris.map((uri) => ({ method: 'notifications/resources/updated', params: { uri } })),
  ];
  for (const notice of notices)
    await deliver(readMessage(Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...notice }))));
}
