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
type Leg = { cut: AbortController; acknowledged: PromiseWithResolvers<Honoured> };

/** Kinds of lists, by the member of a subscription's filter. */
const kinds: Readonly<Record<string, string>> = {
  toolsListChanged: 'tools',
  promptsListChanged: 'prompts',
  resourcesListChanged: 'resources',
};
const acknowledgement = 'notifications/subscriptions/acknowledged';
const firstRetryMs = 1_000;
const longestRetryMs = 30_000;

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
  function open(attempt = 0): Leg | undefined {
    const asked = request();
    const before = current;
    if (!audience || !asked) {
      before?.cut.abort();
      current = undefined;
      return undefined;
    }
    const leg: Leg = {
      cut: new AbortController(),
      acknowledged: Promise.withResolvers<Honoured>(),
    };
    leg.acknowledged.promise.catch(() => undefined);
    current = leg;
    void run(leg, asked, audience, before, attempt);
    return leg;
  }

  async function run(
    leg: Leg,
    asked: Message,
    { deliver, signal }: NonNullable<typeof audience>,
    before: Leg | undefined,
    attempt: number,
  ): Promise<void> {
    let honoured: Honoured | undefined;
    let refused = false;
    const take: Deliver = async (said) => {
      if (said.method === acknowledgement) {
        honoured = honouredBy(said);
        before?.cut.abort();
        if (attempt > 0) await tellAll(honoured, deliver);
        leg.acknowledged.resolve(honoured);
      } else if (said.kind === 'notification') await deliver(said);
      else if (said.members.has('error')) refused = true;
    };
    try {
      await upstream.send(asked, take, AbortSignal.any([signal, leg.cut.signal]));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      log.debug('subscription broke off', { reason });
      refused = error instanceof UpstreamError && error.code === 'unauthorized';
    }
    leg.acknowledged.reject(new UpstreamError('no_answer', 'the subscription was not accepted'));
    if (current !== leg || signal.aborted) return;
    current = undefined;
    const nothing = honoured && honoured.kinds.length + honoured.uris.length === 0;
    if (refused || nothing) return;
    const tries = honoured ? 1 : attempt + 1;
    await clock.sleep(Math.min(firstRetryMs * 2 ** (tries - 1), longestRetryMs), signal);
    if (!current && !signal.aborted) open(tries);
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
      const leg = open();
      // The stream is opened once the assistant listens.
      if (!leg) return true;
      const known = await leg.acknowledged.promise.then(
        (honoured) => honoured.uris.includes(uri),
        () => false,
      );
      if (!known) uris.delete(uri);
      return known;
    },
    unsubscribe(uri) {
      if (uris.delete(uri)) open();
    },
  };
}

function honouredBy(acknowledged: Message): Honoured {
  const said: Record<string, unknown> = JSON.parse(
    textAt(acknowledged, 'params', 'notifications') ?? '{}',
  );
  const subscribed = said['resourceSubscriptions'];
  return {
    kinds: Object.entries(kinds).flatMap(([member, kind]) => (said[member] === true ? [kind] : [])),
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
