import type { EpochSeconds } from '#clock/clock';

/** A session ends when it was not used for this long. */
export const sessionIdleSeconds = 7 * 24 * 60 * 60;

/** A session ends at this age, whatever the use. */
export const sessionLifeSeconds = 30 * 24 * 60 * 60;

/** A browser that is signed in. Only the SHA-256 of its cookie is kept. */
export interface Session {
  /** Public: names the session in lists, opens nothing. */
  readonly id: string;
  readonly userId: string;
  readonly createdAt: EpochSeconds;
  readonly usedAt: EpochSeconds;
  /** Hard end, whatever the use. */
  readonly expiresAt: EpochSeconds;
  readonly address: string;
  readonly userAgent: string;
  /** How many factors the browser proved: a password alone is one. */
  readonly factors: 1 | 2;
}

/** Where sessions are kept. */
export interface SessionStore {
  add(session: Session & { readonly tokenHash: string }): Promise<void>;

  /** The live session of this cookie, its use noted within a minute; `undefined` when idle or expired. */
  use(tokenHash: string, now: EpochSeconds): Promise<Session | undefined>;

  /** The live ones, the last used first. */
  list(userId: string, now: EpochSeconds): Promise<Session[]>;

  /** Ends one session of this person. */
  end(userId: string, sessionId: string): Promise<boolean>;

  /** Ends all of a person's sessions but, if given, one. */
  endAll(userId: string, exceptId?: string): Promise<void>;
}
