import { randomBytes } from 'node:crypto';

import type { Clock, EpochSeconds } from '#model/clock';
import { ownerOf } from './admission.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import type { Call } from './call.ts';
import type { ChangingLists, ToldLists } from './list-changes.ts';
import { type KeptBudget, SessionStreams } from './session-streams.ts';
import { upstreamLocation } from '#model/upstream-kinds';

const sessionIdBytes = 24;
const idleSeconds = 3600;
const maxKeptBytes = 128 * 1024 * 1024;
const idleCheckMs = 60_000;
const maxSessions = 100_000;
const maxSessionsPerPrincipal = 1000;

/** A legacy session that an upstream opened for one principal. */
export interface LegacySession {
  readonly id: string;
  readonly principal: string;
  readonly endpointId: string;
  readonly upstreamSessionId: string;
  /** Its upstream's location: `upstreamLocation`. */
  readonly place: string;
  /** Ids, as JSON text, of the upstream's requests that wait for the caller's response. */
  readonly pending: Set<string>;
  /** Its streams, as long as they can be resumed. */
  readonly streams: SessionStreams;
  /** Whether its caller said that it can show a URL. */
  showsUrls?: boolean;
  /** Name and version of its application, as `initialize` stated them. */
  application?: string | undefined;
  /** The lists whose changes were announced to its caller. */
  lists?: ChangingLists;
  /** The states that were last announced to its caller. */
  told?: ToldLists;
}

interface KeptSession extends LegacySession {
  readonly organization: string;
  usedAt: EpochSeconds;
  readonly end: () => Promise<void>;
}

type Sessions = Map<string, KeptSession>;

/** The upstream of a session. */
export interface SessionEnd {
  /** The organization of the server. */
  readonly organization?: string;
  /** The result of `upstreamLocation`. */
  readonly place?: string;
  /** Ends the session at the upstream. */
  readonly end?: () => Promise<void>;
}

/**
 * The sessions of legacy callers. The gateway's own id (192 random bits) replaces the upstream's id, and is valid only
 * for the principal and server it was created for. Sessions expire after an hour without use. A principal with too many
 * sessions loses the least recently used one. When there are too many in total, the organization with the most sessions
 * loses its least recently used one. The upstream is notified when a session is given up.
 *
 * MCP 2025-11-25 transports, "Session Management"
 */
export class LegacySessions {
  /** The least recently used first, here, in `#byPrincipal` and in `#byOrganization`. */
  readonly #sessions: Sessions = new Map();
  readonly #byPrincipal = new Map<string, Sessions>();
  readonly #byOwner = new Map<string, Sessions>();
  readonly #byOrganization = new Map<string, Sessions>();
  /** The most recently used. */
  #latest: KeptSession | undefined;
  readonly #budget: KeptBudget = { maxBytes: maxKeptBytes, bytes: 0 };
  readonly #clock: Clock;
  readonly #prefix: string;
  readonly #most: number;
  readonly #timer: NodeJS.Timeout;

  /**
   * `instance` identifies this process where several nodes share a database. Ids begin with it: see `instanceOf`. There are at most `most`
   * sessions.
   */
  constructor(clock: Clock, instance?: string, most = maxSessions) {
    this.#clock = clock;
    this.#most = most;
    this.#prefix = instance === undefined ? '' : `${instance}.`;
    this.#timer = setInterval(() => this.#forgetOld(), idleCheckMs).unref();
  }

  open(
    principal: string,
    endpointId: string,
    upstreamSessionId: string,
    { organization = '', place = '', end = () => Promise.resolve() }: SessionEnd = {},
  ): LegacySession {
    this.#forgetOld();
    if (this.#sessions.size >= this.#most) this.#forgetOfMost();
    const own = this.#byPrincipal.get(principal);
    const [oldest] = own?.values() ?? [];
    if (oldest && own && own.size >= maxSessionsPerPrincipal) this.#forget(oldest);
    const id = this.#prefix + randomBytes(sessionIdBytes).toString('base64url');
    const usedAt = this.#clock.now();
    const session = {
      id,
      principal,
      endpointId,
      organization,
      upstreamSessionId,
      place,
      pending: new Set<string>(),
      streams: new SessionStreams(this.#clock, this.#budget),
      usedAt,
      end,
    };
    this.#sessions.set(id, session);
    this.#latest = undefined;
    addTo(this.#byPrincipal, principal, session);
    addTo(this.#byOwner, ownerOfSession(session), session);
    addTo(this.#byOrganization, organization, session);
    return session;
  }

  get count(): number {
    return this.#sessions.size;
  }

  /** Returns `undefined` also for a session of another principal or server. */
  find(id: string, principal: string, endpointId: string): LegacySession | undefined {
    const session = this.#sessions.get(id);
    if (session?.principal !== principal || session.endpointId !== endpointId) return undefined;
    if (session.usedAt + idleSeconds < this.#clock.now()) return undefined;
    this.#touch(session);
    return session;
  }

  /** Removes a session without ending it at its upstream. */
  close(id: string): void {
    const session = this.#sessions.get(id);
    if (!session) return;
    this.#sessions.delete(id);
    if (this.#latest === session) this.#latest = undefined;
    session.streams.forgetAll();
    takeFrom(this.#byPrincipal, session.principal, session);
    takeFrom(this.#byOwner, ownerOfSession(session), session);
    takeFrom(this.#byOrganization, session.organization, session);
  }

  /** Ends a session, also at its upstream. */
  end(id: string): void {
    const session = this.#sessions.get(id);
    if (session) this.#forget(session);
  }

  keeps(owner: string): boolean {
    return this.#byOwner.has(owner);
  }

  /** Ends the sessions of an owner, also at their upstreams. */
  endOf(owner: string): void {
    for (const session of this.#byOwner.get(owner)?.values() ?? []) this.#forget(session);
  }

  /** Ends all sessions, also at their upstreams. */
  async endAll(): Promise<void> {
    clearInterval(this.#timer);
    const sessions = [...this.#sessions.values()];
    this.#sessions.clear();
    this.#byPrincipal.clear();
    this.#byOwner.clear();
    this.#byOrganization.clear();
    await Promise.allSettled(sessions.map(({ end }) => end()));
  }

  #touch(session: KeptSession): void {
    session.usedAt = this.#clock.now();
    if (session === this.#latest) return;
    this.#latest = session;
    for (const sessions of [
      this.#sessions,
      this.#byPrincipal.get(session.principal),
      this.#byOrganization.get(session.organization),
    ]) {
      sessions?.delete(session.id);
      sessions?.set(session.id, session);
    }
  }

  #forget(session: KeptSession): void {
    this.close(session.id);
    // If the upstream cannot be reached, its session times out there.
    session.end().catch(() => undefined);
  }

  #forgetOld(): void {
    const oldest = this.#clock.now() - idleSeconds;
    for (const session of this.#sessions.values()) {
      if (session.usedAt >= oldest) return;
      // An open listening stream counts as use.
      if (session.streams.hasOpen) this.#touch(session);
      else this.#forget(session);
    }
  }

  /** Makes room at the cost of the organization with the most sessions, so that no organization displaces the sessions of another. */
  #forgetOfMost(): void {
    let most: Sessions | undefined;
    for (const sessions of this.#byOrganization.values()) {
      if (sessions.size > (most?.size ?? 0)) most = sessions;
    }
    const [oldest] = most?.values() ?? [];
    if (oldest) this.#forget(oldest);
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

function ownerOfSession({ principal, endpointId }: LegacySession): string {
  return ownerOf(principal, endpointId);
}

/** The process that opened the session of this id; `undefined` if the id names none. */
export function instanceOf(sessionId: string): string | undefined {
  return /^([0-9A-Za-z]{16})\.[\w-]{32}$/.exec(sessionId)?.[1];
}

/**
 * The session that a call names; `undefined` if it names none. A session that was opened before the server got another
 * upstream is ended, because its id at the old upstream must not be sent to the new one.
 *
 * @throws {GatewayRefusal} `unknown_session`
 */
export function sessionOf(
  { request, admission, target }: Call,
  sessions: LegacySessions,
): LegacySession | undefined {
  const id = request.headers['mcp-session-id'];
  if (id === undefined) return undefined;
  const session = sessions.find(String(id), admission.principal, admission.endpoint.id);
  if (!session) throw new GatewayRefusal('unknown_session');
  if (session.place !== upstreamLocation(target.upstream)) {
    sessions.end(session.id);
    throw new GatewayRefusal('unknown_session');
  }
  return session;
}
