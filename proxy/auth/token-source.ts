import { TokenError } from './errors.ts';
import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import type { NarrowToken, RejectedToken, TokenSource } from '#transport/credential';
import type { RefreshLock } from './refresh-lock.ts';
import {
  isDue,
  isExpired,
  type Granted,
  type TokenRecord,
  type TokenVault,
} from './token-vault.ts';

/** Why a token is requested, and the previous token. */
export type Known = {
  challenge?: string;
  previous?: TokenRecord;
  /** The challenge requires scopes that the previous token lacks. */
  wider: boolean;
  /** Why a person is needed, if that is known. */
  why?: string;
};

/**
 * Fetches a token, without a person.
 *
 * @throws {TokenError} `signed_out` if a person has to sign in
 */
export type Grant = (known: Known) => Promise<Granted>;

export type IsAcceptable = (record: TokenRecord | undefined) => boolean;

/** Lets a person sign in, and stores the token. If another process has stored an acceptable one, returns that. */
export type SignIn = (known: Known, isAcceptable: IsAcceptable) => Promise<TokenRecord>;

export type StoredTokenSourceOptions = {
  vault: TokenVault;
  lock: RefreshLock;
  grant: Grant;
  signIn?: SignIn;
  /** Whether to read the store before a token is needed. Reading a keychain takes as long as starting the process. */
  readAhead?: boolean;
  clock: Clock;
  log: Log;
};

const maxWidenings = 8;

/**
 * Tokens that outlive the process. They are read from the store at the start, and renewed before they expire: one caller in one
 * process renews a token for all others. A new token is stored before it is used, because the next renewal may depend on it.
 */
export class StoredTokenSource implements TokenSource {
  readonly #options: StoredTokenSourceOptions;
  readonly #rejected = new Set<string>();
  /** The challenges that a wider token was requested for. */
  readonly #challenges = new Set<string>();
  #current: TokenRecord | undefined;
  #firstRead: Promise<TokenRecord | undefined> | undefined;
  #renewal: Promise<string> | undefined;
  #widening: Promise<string> | undefined;

  constructor(options: StoredTokenSourceOptions) {
    this.#options = options;
    if (options.readAhead ?? true) this.#firstRead = options.vault.access();
    this.#firstRead?.catch(() => undefined);
  }

  async accessToken(refused?: RejectedToken): Promise<string> {
    if (refused?.accessToken !== undefined) this.#rejected.add(refused.accessToken);
    if (this.#firstRead) {
      const reading = this.#firstRead;
      try {
        this.#current ??= await reading;
      } finally {
        if (this.#firstRead === reading) this.#firstRead = undefined;
      }
    }
    if (this.#isFresh(this.#current)) return this.#current.accessToken;
    this.#renewal ??= this.#renew(refused?.challenge).finally(() => {
      this.#renewal = undefined;
    });
    return this.#renewal;
  }

  async widened({ accessToken: narrow, challenge }: NarrowToken): Promise<string | undefined> {
    if (this.#isUsable(this.#current) && this.#current.accessToken !== narrow)
      return this.#current.accessToken;
    if (this.#widening) return this.#widening;
    // Another process may have signed in since, with more scopes.
    const stored = await this.#options.vault.access();
    if (this.#isFresh(stored) && stored.accessToken !== narrow) return this.#use(stored);
    // A server that requires more scopes every time must not send a person to the browser again and again.
    if (this.#challenges.has(challenge) || this.#challenges.size >= maxWidenings) return undefined;
    this.#challenges.add(challenge);
    this.#widening = this.#widen(narrow, challenge).finally(() => {
      this.#widening = undefined;
    });
    return this.#widening;
  }

  async #renew(challenge: string | undefined): Promise<string> {
    const known = { ...(challenge !== undefined && { challenge }), wider: false };
    const isFresh = (record: TokenRecord | undefined) => this.#isFresh(record);
    return this.#acquire(known, isFresh, async (full, stored) => this.#grantOrKeep(full, stored));
  }

  async #widen(narrow: string, challenge: string): Promise<string> {
    const isWider = (record: TokenRecord | undefined) =>
      this.#isFresh(record) && record.accessToken !== narrow;
    return this.#acquire({ challenge, wider: true }, isWider, this.#options.grant);
  }

  /** Takes an acceptable token from the store, or fetches one; if that needs a person, lets them sign in. */
  async #acquire(
    known: Known,
    isAcceptable: IsAcceptable,
    grant: (known: Known, stored: TokenRecord | undefined) => Promise<Granted>,
  ): Promise<string> {
    const { vault, lock, signIn } = this.#options;
    const before = this.#current;
    try {
      return await lock.hold(vault.account, async () => {
        const stored = await vault.access();
        if (stored && isAcceptable(stored)) return this.#use(stored);
        const granted = await grant(withPrevious(known, stored ?? this.#current), stored);
        return granted === this.#current ? granted.accessToken : this.#store(granted);
      });
    } catch (error) {
      // The lock is not held while a person signs in.
      if (!signIn || !isSignedOut(error)) throw error;
      const needed = { ...withPrevious(known, before), why: error.message };
      return this.#use(await signIn(needed, isAcceptable));
    }
  }

  /** If the token cannot be renewed, the current one is used until it expires. */
  async #grantOrKeep(known: Known, stored: TokenRecord | undefined): Promise<Granted> {
    try {
      return await this.#options.grant(known);
    } catch (error) {
      if (!this.#isUsable(this.#current)) {
        if (stored && isSignedOut(error)) await this.#endIfRejected(stored);
        throw error;
      }
      const reason = error instanceof Error ? error.message : '';
      this.#options.log.warn('token not renewed yet', { reason });
      return this.#current;
    }
  }

  /** Marks a rejected token as expired, because other processes and `latchkey status` cannot know that it was rejected. */
  async #endIfRejected({ accessToken }: TokenRecord): Promise<void> {
    const { vault, clock } = this.#options;
    if (this.#rejected.has(accessToken)) await vault.endAccess(accessToken, clock.now());
  }

  async #store(granted: Granted): Promise<string> {
    if (this.#rejected.has(granted.accessToken))
      throw new TokenError('rejected', `${granted.issuer} issued the rejected token again`);
    this.#current = await this.#options.vault.save(granted);
    return this.#current.accessToken;
  }

  #use(record: TokenRecord): string {
    this.#current = record;
    return record.accessToken;
  }

  #isFresh(record: TokenRecord | undefined): record is TokenRecord {
    return this.#isUsable(record) && !isDue(record, this.#options.clock.now());
  }

  #isUsable(record: TokenRecord | undefined): record is TokenRecord {
    if (!record || this.#rejected.has(record.accessToken)) return false;
    return !isExpired(record, this.#options.clock.now());
  }
}

function withPrevious(known: Known, previous: TokenRecord | undefined): Known {
  return previous ? { ...known, previous } : known;
}

function isSignedOut(error: unknown): error is TokenError {
  return error instanceof TokenError && error.code === 'signed_out';
}
