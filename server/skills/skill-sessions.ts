import { randomBytes } from 'node:crypto';

const ownPrefix = 'skills-';
const mostSessions = 100_000;

/** What a session of the older era heard of the skills, and wants to hear. */
export interface SkillSession {
  /** Whether it stands for no session of the upstream, which keeps none. */
  readonly isOwn: boolean;
  /** URIs whose changes it subscribed to. */
  readonly subscribed: Set<string>;
  /** Of the lists that it was told of last. */
  toldVersion: number;
  /** The stream that it listens by; a newer one takes its place. */
  listening: AbortController | undefined;
  /** Ends a request of this id, JSON text; only where the upstream has nobody to tell. */
  readonly underWay: Map<string, AbortController>;
}

/**
 * The sessions of callers with servers that have skills, by who they are and the upstream's id, or one of ours. Of an
 * upstream's session that ends without a word nobody tells: where there are too many the oldest is forgotten.
 */
export class SkillSessions {
  readonly #sessions = new Map<string, SkillSession>();
  readonly #most: number;

  constructor(most = mostSessions) {
    this.#most = most;
  }

  /** A new session; `id` is the upstream's, where it keeps them. @returns its id */
  open(owner: string, id: string | undefined, version: number): string {
    this.#makeRoom();
    const known = id ?? ownPrefix + randomBytes(24).toString('base64url');
    this.#sessions.set(`${owner} ${known}`, {
      isOwn: id === undefined,
      subscribed: new Set(),
      toldVersion: version,
      listening: undefined,
      underWay: new Map(),
    });
    return known;
  }

  find(owner: string, id: string | undefined): SkillSession | undefined {
    return id === undefined ? undefined : this.#sessions.get(`${owner} ${id}`);
  }

  close(owner: string, id: string | undefined): void {
    const session = this.find(owner, id);
    session?.listening?.abort();
    this.#sessions.delete(`${owner} ${id}`);
  }

  #makeRoom(): void {
    const [oldest] = this.#sessions;
    if (!oldest || this.#sessions.size < this.#most) return;
    const [name, session] = oldest;
    session.listening?.abort();
    this.#sessions.delete(name);
  }

  /** Whether an id is one of ours, also of a session that is over. */
  isOwnId(id: string | undefined): boolean {
    return id?.startsWith(ownPrefix) ?? false;
  }
}
