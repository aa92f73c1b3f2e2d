import { z } from 'zod';

import { wholeEvents } from './whole-events.ts';
import { membersIn } from '#gateway/json-parts';
import { scanMessage, type Envelope } from '#gateway/json-scan';
import type { Upstream, UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import { isUnknownMethod, responseOf, whole } from './answer-message.ts';
import { joined } from './joined-streams.ts';
import { acknowledgement, notices, type Wanted } from './notices.ts';
import type { SkillFolder } from './skill-folder.ts';
import { isSkillUri } from './skill-uri.ts';

const subscriptionKey = 'io.modelcontextprotocol/subscriptionId';
const askedSchema = z.object({
  params: z.object({
    notifications: z.looseObject({
      resourcesListChanged: z.boolean().optional(),
      resourceSubscriptions: z.array(z.string()).optional(),
    }),
  }),
});
const heardSchema = z.object({
  method: z.literal('notifications/subscriptions/acknowledged'),
  params: z.looseObject({
    notifications: z.looseObject({ resourceSubscriptions: z.array(z.string()).optional() }),
  }),
});

/**
 * A modern caller's stream of notifications: the upstream's with those of the skills among them. An upstream that has
 * no such method leaves the skills' alone. The first event says what both tell of.
 *
 * MCP 2026-07-28 `subscriptions/listen`
 */
export async function listenWithSkills(
  upstream: Upstream,
  request: UpstreamRequest,
  { id }: Envelope,
  folder: SkillFolder,
): Promise<UpstreamAnswer> {
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  request.signal.addEventListener('abort', stop);
  const wanted = wantedBy(request.body, id);
  const signal = stopping.signal;
  const theirs = await upstream.send({ ...request, signal });
  const own = ownNotices(folder, wanted, signal);
  if (theirs.status === 200 && theirs.mediaType === 'text/event-stream') {
    const events = acknowledged(wholeEvents(theirs.body), wanted);
    return { ...theirs, body: joined(events, own, stop) };
  }
  const response = await responseOf(theirs);
  if (response && isUnknownMethod(response)) return eventStream(alone(wanted, own));
  stop();
  return response ? whole(response.message, theirs) : theirs;
}

/** An answer that is a stream of events. */
export function eventStream(body: AsyncIterable<Uint8Array>): UpstreamAnswer {
  const headers = { sessionId: undefined, retryAfterSeconds: undefined };
  return { status: 200, mediaType: 'text/event-stream', ...headers, body };
}

function wantedBy(body: Uint8Array | undefined, id: string | undefined): Required<Wanted> {
  const { data } = askedSchema.safeParse(JSON.parse(Buffer.from(body ?? []).toString('utf8')));
  const { resourcesListChanged = false, resourceSubscriptions = [] } =
    data?.params.notifications ?? {};
  return {
    lists: resourcesListChanged,
    uris: new Set(resourceSubscriptions.filter((uri) => isSkillUri(uri))),
    meta: { [subscriptionKey]: JSON.parse(id ?? 'null') as unknown },
  };
}

async function* ownNotices(folder: SkillFolder, wanted: Wanted, signal: AbortSignal) {
  for await (const change of folder.feed.follow(signal)) yield* notices(change, wanted);
}

function honoured({ lists, uris }: Wanted): object {
  return {
    ...(lists && { resourcesListChanged: true }),
    ...(uris.size > 0 && { resourceSubscriptions: [...uris] }),
  };
}

async function* alone(wanted: Required<Wanted>, own: AsyncIterable<Uint8Array>) {
  yield acknowledgement(honoured(wanted), wanted.meta);
  yield* own;
}

/** The upstream's events, the first of them saying what the skills tell of as well. */
async function* acknowledged(
  events: ReturnType<typeof wholeEvents>,
  wanted: Required<Wanted>,
): AsyncGenerator<Uint8Array> {
  let isFirst = true;
  for await (const { raw, data } of events) {
    const heard = isFirst && data.length > 0 ? heardIn(data) : undefined;
    if (!heard) {
      yield raw;
      continue;
    }
    isFirst = false;
    const { resourceSubscriptions = [], ...others } = heard;
    const uris = new Set([...resourceSubscriptions, ...wanted.uris]);
    const both = { ...others, ...honoured({ ...wanted, uris }) };
    yield acknowledgement(both, wanted.meta);
  }
}

function heardIn(data: Uint8Array) {
  const scan = scanMessage(data);
  if (scan.outcome === 'refused' || scan.envelope.kind !== 'notification') return undefined;
  const text = Buffer.from(data);
  if (!membersIn(text, scan.envelope.root).has('params')) return undefined;
  return heardSchema.safeParse(JSON.parse(text.toString('utf8'))).data?.params.notifications;
}
