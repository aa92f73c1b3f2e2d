import { randomBytes } from 'node:crypto';

import type { Clock, EpochSeconds } from '#clock/clock';
import type { Call } from './call.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { ownerOf } from './owner-of.ts';
import { SessionStreams, type KeptBudget } from './session-streams.ts';
import { upstreamPlace } from './upstream-place.ts';

const sessionIdBytes = 24;
const idleSeconds = 3600;
const maxKeptBytes = 128 * 1024 * 1024;
const sweepEveryMs = 60_000;
const maxSessions = 100_000;
const maxSessionsPerPrincipal = 1000;

/** A legacy session that an upstream opened for one principal. */
export interface LegacySession {
  readonly id: string;
  readonly principal: string;
  readonly serverId: string;
  readonly upstreamSessionId: string;
  /** Where its upstream is: `upstreamPlace`. */
  readonly place: string;
  /** Ids, as JSON text, of the upstream's requests that wait for the caller's response. */
  readonly pending: Set<string>;
  /** Its streams, while they can be asked for again. */
  readonly streams: SessionStreams;
  /** Whether its caller said that it can show a person a URL. */
  showsUrls?: boolean;
}

interface KeptSession extends LegacySession {
  usedAt: EpochSeconds;
  readonly end: () => Promise<void>;
}

type Sessions = Map<string, KeptSession>;

/** The upstream of a session. */
export interface SessionEnd {
  /** `upstreamPlace` */
  readonly place?: string;
  /** Tells it that its session is over. */
  readonly end?: () => Promise<void>;
}

/**
 * The sessions of callers of the legacy era: an id of ours (192 random bits) stands for the upstream's
 * own, and opens it for the principal and the server it was made for, nobody else. One that nobody
 * used for an hour is forgotten. A principal who has too many loses the least recently used one, and
 * nobody else does. The upstream is told of every session that is given up here.
 *
 * MCP 2025-11-25 transports, "Session Management"
 */
export class LegacySessions {
  /** The least recently used first, here and in `#byPrincipal`. */
  readonly #sessions: Sessions = new Map();
  readonly #byPrincipal = new Map<string, Sessions>();
  readonly #byOwner = new Map<string, Sessions>();
  readonly #budget: KeptBudget = { maxBytes: maxKeptBytes, bytes: 0 };
  readonly #clock: Clock;
  readonly #timer: NodeJS.Timeout;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#timer = setInterval(() => this.#forgetOld(), sweepEveryMs).unref();
  }

  open(
    principal: string,
    serverId: string,
    upstreamSessionId: string,
    { place = '', end = () => Promise.resolve() }: SessionEnd = {},
  ): LegacySession {
    this.#forgetOld();
    const own = this.#byPrincipal.get(principal);
    const [oldest] = own?.values() ?? [];
    if (oldest && own && own.size >= maxSessionsPerPrincipal) this.#forget(oldest);
    const id = randomBytes(sessionIdBytes).toString('base64url');
    const usedAt = this.#clock.now();
    const session = {
      id,
      principal,
      serverId,
      upstreamSessionId,
      place,
      pending: new Set<string>(),
      streams: new SessionStreams(this.#clock, this.#budget),
      usedAt,
      end,
    };
    this.#sessions.set(id, session);
    addTo(this.#byPrincipal, principal, session);
    addTo(this.#byOwner, ownerOfSession(session), session);
    return session;
  }

  /** `undefined` also for a session of somebody else or of another server. */
  find(id: string, principal: string, serverId: string): LegacySession | undefined {
    const session = this.#sessions.get(id);
    if (session?.principal !== principal || session.serverId !== serverId) return undefined;
    if (session.usedAt + idleSeconds < this.#clock.now()) return undefined;
    this.#touch(session);
    return session;
  }

  /** Forgets a session that the upstream knows to be over. */
  close(id: string): void {
    const session = this.#sessions.get(id);
    if (!session) return;
    this.#sessions.delete(id);
    session.streams.forgetAll();
    takeFrom(this.#byPrincipal, session.principal, session);
    takeFrom(this.#byOwner, ownerOfSession(session), session);
  }

  /** Forgets a session whose upstream nobody asks any more, and tells that upstream. */
  end(id: string): void {
    const session = this.#sessions.get(id);
    if (session) this.#forget(session);
  }

  keeps(owner: string): boolean {
    return this.#byOwner.has(owner);
  }

  /** Ends the sessions of an owner, at their upstreams too. */
  endOf(owner: string): void {
    for (const session of this.#byOwner.get(owner)?.values() ?? []) this.#forget(session);
  }

  /** Ends all sessions, at their upstreams too. */
  async endAll(): Promise<void> {
    clearInterval(this.#timer);
    const sessions = [...this.#sessions.values()];
    this.#sessions.clear();
    this.#byPrincipal.clear();
    this.#byOwner.clear();
    await Promise.allSettled(sessions.map(({ end }) => end()));
  }

  #touch(session: KeptSession): void {
    session.usedAt = this.#clock.now();
    for (const sessions of [this.#sessions, this.#byPrincipal.get(session.principal)]) {
      sessions?.delete(session.id);
      sessions?.set(session.id, session);
    }
  }

  #forget(session: KeptSession): void {
    this.close(session.id);
    // An upstream that cannot be told forgets by itself.
    session.end().catch(() => undefined);
  }

  #forgetOld(): void {
    const oldest = this.#clock.now() - idleSeconds;
    for (const session of this.#sessions.values()) {
      const isFull = this.#sessions.size >= maxSessions;
      if (session.usedAt >= oldest && !isFull) return;
      // Who only listens uses it too.
      if (session.streams.hasOpen && !isFull) this.#touch(session);
      else this.#forget(session);
    }
  }
}

function addTo(groups: Map<string, Sessions>, name: string, session: KeptSession): void {
  const group: Sessions = groups.get(name) ?? new Map();
  groups.set(name, group);
  group.set(session.id, session);
}

function takeFrom(groups: Map<string, Sessions>, name: string, { id }: KeptSession): void {
  const group = groups.get(name);
  group?.delete(id);
  if (group?.size === 0) groups.delete(name);
}

function ownerOfSession({ principal, serverId }: LegacySession): string {
  return ownerOf(principal, serverId);
}

/**
 * The session that a call names; `undefined` when it names none. One from before its server was pointed
 * elsewhere ends: what it is called at the one upstream is not for another to hear.
 *
 * @throws {GatewayRefusal} `unknown_session`
 */
export function sessionOf(
  { request, admission }: Call,
  sessions: LegacySessions,
): LegacySession | undefined {
  const id = request.headers['mcp-session-id'];
  if (id === undefined) return undefined;
  const session = sessions.find(String(id), admission.principal, admission.server.id);
  if (!session) throw new GatewayRefusal('unknown_session');
  if (session.place !== upstreamPlace(admission.server)) {
    sessions.end(session.id);
    throw new GatewayRefusal('unknown_session');
  }
  return session;
}
