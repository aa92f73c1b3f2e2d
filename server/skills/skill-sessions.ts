import { randomBytes } from 'node:crypto';

const ownPrefix = 'skills-';

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

/** The sessions of callers with servers that have skills, by who they are and the upstream's id, or one of ours. */
export class SkillSessions {
  readonly #sessions = new Map<string, SkillSession>();

  /** A new session; `id` is the upstream's, where it keeps them. @returns its id */
  open(owner: string, id: string | undefined, version: number): string {
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

  /** Whether an id is one of ours, also of a session that is over. */
  isOwnId(id: string | undefined): boolean {
    return id?.startsWith(ownPrefix) ?? false;
  }
}
