import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { mayDo } from '#admin/operation';
import type { Clock } from '#model/clock';
import type { Db } from '#db/transaction';
import { listSessions } from '#db/sessions';
import { dashboardPath } from '#web/layout';
import { queryText } from '#web/page-request';
import type { CurrentMember } from '#web/page-session';
import type { ChangeStore } from '#db/changes';
import { type DashboardGuard, membershipOf } from './guard.ts';

/** The path of the event stream for the pages of an organization, or for those of one of its servers. */
export function livePath(organization: string, server?: string): string {
  const query = server === undefined ? '' : `?server=${server}`;
  return `${dashboardPath(organization)}/live${query}`;
}

/** `GET /dashboard/{organization}/live`: server-sent events that announce changes. */
export function liveRoutes(
  app: FastifyInstance,
  guard: DashboardGuard,
  streams: LiveStreams,
): void {
  const needs = 'server.read';

  guard.get('/live', needs, async ({ person, organization }, request, reply, { ports }) => {
    const isAllowed = async () => {
      const membership = await membershipOf(person, organization, ports);
      return membership !== undefined && !membership.missing && mayDo(membership.role, needs);
    };
    const server = queryText(request, 'server');
    const name = `${organization}/${server ?? ''}`;
    const readState = () => ports.changes.stateOf(organization, server);
    return sendLiveStream(reply, person, { name, readState, isAllowed }, { ports, streams });
  });

  app.addHook('preClose', async () => streams.close());
}

/**
 * Responds with the stream of a page, which ends with the session of the person or as soon as `isAllowed` returns
 * `false`.
 */
export async function sendLiveStream(
  reply: FastifyReply,
  { session: { id: sessionId, userId } }: CurrentMember,
  topic: Pick<LiveTopic, 'name' | 'readState' | 'isAllowed' | 'isTimed'>,
  { ports: { db, clock }, streams }: { ports: { db: Db; clock: Clock }; streams: LiveStreams },
): Promise<FastifyReply> {
  // The same check as on other requests, except `useSession`, which would keep a session alive as long as a page is open.
  const isAllowed = async () => {
    const mine = await listSessions(db, userId, clock.now());
    return mine.some(({ id }) => id === sessionId) && topic.isAllowed();
  };
  const isOpen = await streams.open({ ...topic, sessionId, userId, isAllowed }, () => {
    reply.hijack();
    return reply.raw;
  });
  return isOpen ? reply : reply.code(503).send();
}

const lookEveryMs = 500;
/** How often access is checked without a change, because no change is recorded when a session expires. */
const proveEverySeconds = 30;
const streamsASession = 4;
/** So that one person cannot use up the streams for everyone. */
const streamsAPerson = 20;
const streamsInAll = 2000;

/** The subject of a stream, and its listener. */
interface LiveTopic {
  readonly sessionId: string;
  readonly userId: string;
  /** Streams with the same name announce the same changes. */
  readonly name: string;
  /** A token that changes with what the page shows. */
  readonly readState: () => Promise<string>;
  /** Whether the listener still has access. */
  readonly isAllowed: () => Promise<boolean>;
  /** Whether the state also changes as time passes, without a write, so that it is read at each look. */
  readonly isTimed?: boolean;
}

interface Stream extends LiveTopic {
  readonly response: ServerResponse;
  state: string;
}

/** `failed` receives errors of the background checks. */
interface LiveStreamsPorts {
  readonly changes: Pick<ChangeStore, 'newestChangeToken'>;
  readonly failed: (error: unknown) => void;
  readonly clock: Clock;
}

/**
 * The event streams of open pages. They announce that something changed, never what; the page then makes an ordinary
 * request. A stream ends within a second after the session or membership is removed, and within about half a minute after the
 * session expires.
 */
export class LiveStreams {
  readonly #streams = new Set<Stream>();
  readonly #ports: LiveStreamsPorts;
  #timer: NodeJS.Timeout | undefined;
  #changeToken = '';
  #provedAt = 0;
  #isLooking = false;
  #isClosed = false;

  constructor(ports: LiveStreamsPorts) {
    this.#ports = ports;
  }

  /**
   * Opens a stream on the response that `take` returns. `take` is called only when nothing can fail any more, because
   * it ends the framework's handling of the response. Returns `false` without calling `take` if there are too many
   * streams or the server is stopping.
   */
  async open(topic: LiveTopic, take: () => ServerResponse): Promise<boolean> {
    const state = await topic.readState();
    if (this.#isClosed) return false;
    const theirs = [...this.#streams].filter(({ userId }) => userId === topic.userId);
    this.#evictOldest(
      theirs.filter(({ sessionId }) => sessionId === topic.sessionId),
      streamsASession,
    );
    this.#evictOldest(theirs, streamsAPerson);
    if (this.#streams.size >= streamsInAll) return false;
    const response = take();
    const stream: Stream = { ...topic, response, state };
    response.writeHead(200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
      'X-Content-Type-Options': 'nosniff',
    });
    response.write('retry: 2000\n\n');
    response.once('close', () => this.#forget(stream));
    if (response.destroyed) return true;
    this.#streams.add(stream);
    this.#timer ??= setInterval(() => void this.look(), lookEveryMs).unref();
    return true;
  }

  get count(): number {
    return this.#streams.size;
  }

  /** Ends every stream. Browsers reconnect once a server listens again. */
  close(): void {
    this.#isClosed = true;
    for (const stream of this.#streams) stream.response.end();
    this.#streams.clear();
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Announces changes, and ends the streams of people who lost access. Runs on a timer. */
  async look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const changeToken = await this.#ports.changes.newestChangeToken();
      const now = this.#ports.clock.now();
      const isDue = now - this.#provedAt > proveEverySeconds;
      const states = new Map<string, Promise<string>>();
      if (changeToken === this.#changeToken && !isDue) {
        for (const stream of this.#streams) {
          if (stream.isTimed && (await stateOf(stream, states)) !== stream.state)
            await this.#tell(stream, states);
        }
        return;
      }
      this.#changeToken = changeToken;
      this.#provedAt = now;
      for (const stream of this.#streams) await this.#tell(stream, states);
    } catch (error) {
      this.#ports.failed(error);
    } finally {
      this.#isLooking = false;
    }
  }

  async #tell(stream: Stream, states: Map<string, Promise<string>>): Promise<void> {
    if (!(await stream.isAllowed())) return this.#end(stream, 'over');
    const state = await stateOf(stream, states);
    // Without changes, a comment line detects connections that broke silently.
    stream.response.write(state === stream.state ? ':\n\n' : 'event: written\ndata:\n\n');
    stream.state = state;
  }

  /** Ends the oldest of these streams to allow one more. */
  #evictOldest(streams: readonly Stream[], most: number): void {
    const open = streams.filter((stream) => this.#streams.has(stream));
    for (const stream of open.slice(0, Math.max(0, open.length - most + 1))) {
      this.#end(stream, 'full');
    }
  }

  #end(stream: Stream, why: 'over' | 'full'): void {
    stream.response.end(`event: ${why}\ndata:\n\n`);
    this.#forget(stream);
  }

  #forget(stream: Stream): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/** The state of a stream, read once for all streams with the same name. */
function stateOf(
  { name, readState }: LiveTopic,
  states: Map<string, Promise<string>>,
): Promise<string> {
  const asked = states.get(name) ?? readState();
  states.set(name, asked);
  return asked;
}

const mostKept = 50;

/**
 * Caches query results until any process writes to the database. Each use checks for writes first, so that a page
 * never shows outdated data. Permissions are checked before, at each request; `key` contains everything else that the
 * result depends on, including the time.
 */
export function queryCache({ newestChangeToken }: Pick<ChangeStore, 'newestChangeToken'>) {
  const kept = new Map<string, unknown>();
  let asOf = '';

  return async <Work extends object>(
    key: readonly unknown[],
    work: () => Promise<Work>,
  ): Promise<Work> => {
    const now = await newestChangeToken();
    if (now !== asOf || kept.size >= mostKept) {
      kept.clear();
      asOf = now;
    }
    const name = JSON.stringify(key);
    // Values under the same name come from the same query.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    if (kept.has(name)) return kept.get(name) as Work;
    const done = await work();
    if (asOf === now) kept.set(name, done);
    return done;
  };
}

export type QueryCache = ReturnType<typeof queryCache>;

/** Changes of facts that are only in memory: which agents are connected, and which servers answer. */
interface HealthChanges {
  /** A number that changes with the state of one organization, or of any. */
  revision(organization?: string): number;
}

/** Combines changes of the database with those in memory. */
export function changesWithHealth(
  changes: ChangeStore,
  others: readonly HealthChanges[],
): ChangeStore {
  const revisions = (organization?: string) =>
    others.map((other) => other.revision(organization)).join(' ');
  return {
    changeToken: () => `${changes.changeToken()} ${revisions()}`,
    newestChangeToken: async () => `${await changes.newestChangeToken()} ${revisions()}`,
    async stateOf(organization, server) {
      const state = await changes.stateOf(organization, server);
      return server === undefined ? `${state} ${revisions(organization)}` : state;
    },
  };
}
