// Streams of notifications: changes of the skills among the events of the upstream.
import { z } from 'zod';

import { emptyAnswer } from '#gateway/adapter-messages';
import { discardAnswer } from '#gateway/answers';
import {
  isEventStream,
  type UpstreamAnswer,
  type UpstreamRequest,
  type UpstreamSend,
} from '#gateway/upstream';
import { membersIn } from 'latchkey-mcp/json-edit';
import { type Envelope, scanMessage } from 'latchkey-mcp/message';
import { type SseEvent, sseEvents } from 'latchkey-mcp/sse';
import { onEnd } from '#model/streams';
import { isUnknownMethod, readResponse, wholeAnswer } from './responses.ts';
import type { SkillSession } from './sessions.ts';
import type { SkillChange, SkillFolder } from './skill-folder.ts';
import { isSkillUri } from './skill-uri.ts';

const maxBytes = 64 * 1024 * 1024;

const subscriptionKey = 'io.modelcontextprotocol/subscriptionId';
const requestSchema = z.object({
  params: z.object({
    notifications: z.looseObject({
      resourcesListChanged: z.boolean().optional(),
      resourceSubscriptions: z.array(z.string()).optional(),
    }),
  }),
});
const acknowledgementSchema = z.object({
  method: z.literal('notifications/subscriptions/acknowledged'),
  params: z.looseObject({
    notifications: z.looseObject({ resourceSubscriptions: z.array(z.string()).optional() }),
  }),
});

/** The notifications that a subscriber asked for. */
interface Subscription {
  readonly lists: boolean;
  readonly uris: ReadonlySet<string>;
  /** `_meta` of each notification, in the modern era. */
  readonly meta?: object;
}

/**
 * Answers a modern caller's `subscriptions/listen`: the upstream's notifications and those of the skills in one stream.
 * If the upstream does not have the method, the stream carries those of the skills alone. The first event acknowledges
 * the notifications of both.
 *
 * MCP 2026-07-28 `subscriptions/listen`
 */
export async function listenWithSkills(
  next: UpstreamSend,
  request: UpstreamRequest,
  { id }: Envelope,
  folder: SkillFolder,
): Promise<UpstreamAnswer> {
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  request.signal.addEventListener('abort', stop);
  const subscription = readSubscription(request.body, id);
  const signal = stopping.signal;
  const theirs = await next({ ...request, signal });
  const own = skillNotifications(folder, subscription, signal);
  if (isEventStream(theirs)) {
    const events = withAcknowledgement(sseEvents(theirs.body, { maxBytes }), subscription);
    return { ...theirs, body: joinStreams(events, own, stop) };
  }
  const response = await readResponse(theirs);
  if (response && isUnknownMethod(response)) return eventStream(acknowledged(subscription, own));
  stop();
  return response ? wholeAnswer(response.message, theirs) : theirs;
}

function eventStream(body: AsyncIterable<Uint8Array>): UpstreamAnswer {
  return { ...emptyAnswer(200), mediaType: 'text/event-stream', body };
}

function readSubscription(
  body: Uint8Array | undefined,
  id: string | undefined,
): Required<Subscription> {
  const { data } = requestSchema.safeParse(JSON.parse(Buffer.from(body ?? []).toString('utf8')));
  const { resourcesListChanged = false, resourceSubscriptions = [] } =
    data?.params.notifications ?? {};
  return {
    lists: resourcesListChanged,
    uris: new Set(resourceSubscriptions.filter((uri) => isSkillUri(uri))),
    meta: { [subscriptionKey]: JSON.parse(id ?? 'null') as unknown },
  };
}

async function* skillNotifications(
  folder: SkillFolder,
  subscription: Subscription,
  signal: AbortSignal,
) {
  for await (const change of folder.feed.subscribe(signal)) {
    yield* notifications(change, subscription);
  }
}

function acceptedBy({ lists, uris }: Subscription): object {
  return {
    ...(lists && { resourcesListChanged: true }),
    ...(uris.size > 0 && { resourceSubscriptions: [...uris] }),
  };
}

async function* acknowledged(subscription: Required<Subscription>, own: AsyncIterable<Uint8Array>) {
  yield acknowledgement(acceptedBy(subscription), subscription.meta);
  yield* own;
}

/** The upstream's events, with the notifications of the skills added to its acknowledgement. */
async function* withAcknowledgement(
  events: AsyncGenerator<SseEvent, void, undefined>,
  subscription: Required<Subscription>,
): AsyncGenerator<Uint8Array> {
  let isFirst = true;
  for await (const { raw, data } of events) {
    const accepted = isFirst && data.length > 0 ? acknowledgedIn(data) : undefined;
    if (!accepted) {
      yield raw;
      continue;
    }
    isFirst = false;
    const { resourceSubscriptions = [], ...others } = accepted;
    const uris = new Set([...resourceSubscriptions, ...subscription.uris]);
    const both = { ...others, ...acceptedBy({ ...subscription, uris }) };
    yield acknowledgement(both, subscription.meta);
  }
}

function acknowledgedIn(data: Uint8Array) {
  const scan = scanMessage(data);
  if (scan.outcome === 'refused' || scan.envelope.kind !== 'notification') return undefined;
  const text = Buffer.from(data);
  if (!membersIn(text, scan.envelope.root).has('params')) return undefined;
  return acknowledgementSchema.safeParse(JSON.parse(text.toString('utf8'))).data?.params
    .notifications;
}

/**
 * Answers the GET of a session of the legacy era: the upstream's events and those of the skills in one stream, or those
 * of the skills alone if the upstream has no such stream. If lists changed while the session had no stream, a
 * notification comes first.
 *
 * MCP 2025-11-25 transports, "Listening for Messages from the Server"
 */
export async function listenInSession(
  listen: (signal: AbortSignal) => Promise<UpstreamAnswer | undefined>,
  { signal }: UpstreamRequest,
  session: SkillSession,
  folder: SkillFolder,
): Promise<UpstreamAnswer> {
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  signal.addEventListener('abort', stop);
  const theirs = await listen(stopping.signal);
  const stream = theirs && isEventStream(theirs) ? theirs : undefined;
  if (theirs && !stream) {
    if (theirs.status !== 405 && theirs.status !== 200) return theirs;
    await discardAnswer(theirs);
  }
  // Each event is sent once, on the stream that was opened last.
  session.listening?.abort();
  const ours = new AbortController();
  session.listening = ours;
  stopping.signal.addEventListener('abort', () => ours.abort());
  const own = sessionNotifications(session, folder, ours.signal);
  if (!stream) return eventStream(onEnd(own, stop));
  return { ...stream, body: joinStreams(rawEvents(stream.body), own, stop) };
}

async function* sessionNotifications(
  session: SkillSession,
  folder: SkillFolder,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const subscription = { lists: true, uris: session.subscribed };
  const { feed } = folder;
  const missed = session.notifiedVersion !== feed.version;
  session.notifiedVersion = feed.version;
  if (missed) yield* notifications({ isListChanged: true, updated: [] }, subscription);
  for await (const change of feed.subscribe(signal)) {
    session.notifiedVersion = feed.version;
    yield* notifications(change, subscription);
  }
}

async function* rawEvents(body: UpstreamAnswer['body']): AsyncGenerator<Uint8Array> {
  for await (const event of sseEvents(body, { maxBytes })) yield event.raw;
}

/** The events of a stream for a change. MCP 2025-11-25 resources, "Notifications" */
function notifications(
  { isListChanged, updated }: SkillChange,
  subscription: Subscription,
): Uint8Array[] {
  const meta = subscription.meta && { _meta: subscription.meta };
  const uris = updated.filter((uri) => subscription.uris.has(uri));
  return [
    ...(isListChanged && subscription.lists
      ? [encode('notifications/resources/list_changed', { ...meta })]
      : []),
    ...uris.map((uri) => encode('notifications/resources/updated', { uri, ...meta })),
  ];
}

/** The first event of a modern stream: which notifications it carries. MCP 2026-07-28 `subscriptions/listen` */
function acknowledgement(accepted: object, meta: object): Uint8Array {
  const params = { notifications: accepted, _meta: meta };
  return encode('notifications/subscriptions/acknowledged', params);
}

function encode(method: string, params: object): Uint8Array {
  return Buffer.from(
    `event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', method, params })}\n\n`,
  );
}

interface Next<Item> {
  readonly from: AsyncIterator<Item>;
  readonly result: IteratorResult<Item>;
}

/**
 * Yields the items of two sources as they arrive, until `first` ends or one of them fails. `stop` must end both; it is
 * called when the reader stops.
 */
export async function* joinStreams<Item>(
  first: AsyncIterable<Item>,
  second: AsyncIterable<Item>,
  stop: () => void,
): AsyncGenerator<Item> {
  const [leading, other] = [first[Symbol.asyncIterator](), second[Symbol.asyncIterator]()];
  const next = async (from: AsyncIterator<Item>): Promise<Next<Item>> => ({
    from,
    result: await from.next(),
  });
  let ofLeading: Promise<Next<Item>> = next(leading);
  let ofOther: Promise<Next<Item>> | undefined = next(other);
  try {
    for (;;) {
      const racing: Promise<Next<Item>>[] = ofOther ? [ofLeading, ofOther] : [ofLeading];
      const { from, result } = await Promise.race(racing);
      if (from === leading) {
        if (result.done) return;
        ofLeading = next(leading);
      } else ofOther = result.done ? undefined : next(other);
      if (!result.done) yield result.value;
    }
  } finally {
    stop();
    // The items that are still pending are not read.
    ofLeading.catch(() => undefined);
    ofOther?.catch(() => undefined);
  }
}
