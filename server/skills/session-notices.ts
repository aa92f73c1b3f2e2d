import type { UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import { joined } from './joined-streams.ts';
import { eventStream } from './listen-with-skills.ts';
import { notices } from './notices.ts';
import type { SkillFolder } from './skill-folder.ts';
import type { SkillSession } from './skill-sessions.ts';
import { wholeEvents } from './whole-events.ts';

/**
 * What a session of the older era hears unasked: its upstream's events with those of the skills among them, or
 * these alone where the upstream has no such stream. Lists that changed while nobody listened are told of first.
 *
 * MCP 2025-11-25 transports, "Listening for Messages from the Server"
 */
export async function sessionNotices(
  listen: (signal: AbortSignal) => Promise<UpstreamAnswer | undefined>,
  { signal }: UpstreamRequest,
  session: SkillSession,
  folder: SkillFolder,
): Promise<UpstreamAnswer> {
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  signal.addEventListener('abort', stop);
  const theirs = await listen(stopping.signal);
  if (theirs && theirs.status !== 405 && theirs.mediaType !== 'text/event-stream') return theirs;
  // What came is told once, by the stream that was opened last.
  session.listening?.abort();
  const ours = new AbortController();
  session.listening = ours;
  stopping.signal.addEventListener('abort', () => ours.abort());
  const own = heardBy(session, folder, ours.signal);
  if (!theirs || theirs.status === 405) return eventStream(ended(own, stop));
  return { ...theirs, body: joined(raw(theirs.body), own, stop) };
}

async function* heardBy(
  session: SkillSession,
  folder: SkillFolder,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const wanted = { lists: true, uris: session.subscribed };
  const { feed } = folder;
  const missed = session.toldVersion !== feed.version;
  session.toldVersion = feed.version;
  if (missed) yield* notices({ isListChanged: true, updated: [] }, wanted);
  for await (const change of feed.follow(signal)) {
    session.toldVersion = feed.version;
    yield* notices(change, wanted);
  }
}

async function* raw(body: UpstreamAnswer['body']): AsyncGenerator<Uint8Array> {
  for await (const event of wholeEvents(body)) yield event.raw;
}

async function* ended(own: AsyncIterable<Uint8Array>, stop: () => void) {
  try {
    yield* own;
  } finally {
    stop();
  }
}
