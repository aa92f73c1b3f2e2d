import { TokenError } from './errors.ts';
import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import type { RejectedToken, TokenSource } from '#transport/credential';
import type { RefreshLock } from './refresh-lock.ts';
import {
  isDue,
  isExpired,
  type Granted,
  type TokenRecord,
  type TokenVault,
} from './token-vault.ts';

/** Why a new token is wanted, and what was there before. */
export type Known = {
  challenge?: string;
  previous?: TokenRecord;
  /** The challenge asks for scopes that the token before lacks. */
  wider: boolean;
};

/**
 * Fetches a new token, without a person.
 *
 * @throws {TokenError} `signed_out` when only a person can bring one
 */
export type Grant = (known: Known) => Promise<Granted>;

/** Lets a person sign in; the token it brings is safely stored. `isGood` tells one found there. */
export type SignIn = (
  known: Known,
  isGood: (record: TokenRecord | undefined) => boolean,
) => Promise<TokenRecord>;

export type StoredTokenSourceOptions = {
  vault: TokenVault;
  lock: RefreshLock;
  grant: Grant;
  signIn?: SignIn;
  /** Whether to read the store before anyone asks; a keychain takes as long as starting up does. */
  readAhead?: boolean;
  clock: Clock;
  log: Log;
};

const mostWidenings = 8;

/**
 * Tokens that outlive the process: read from the store at once, renewed ahead of expiry, by one
 * caller of one process for all others. A new token is used only once it is safely stored, since
 * the next one may depend on it.
 */
export function storedTokenSource(options: StoredTokenSourceOptions): TokenSource {
  const { vault, lock, grant, signIn, readAhead = true, clock, log } = options;
  const rejected = new Set<string>();
  const asked = new Set<string>();
  let current: TokenRecord | undefined;
  let renewal: Promise<string> | undefined;
  let widening: Promise<string> | undefined;

  let firstRead: Promise<TokenRecord | undefined> | undefined = readAhead
    ? vault.access()
    : undefined;
  firstRead?.catch(() => undefined);

  const usable = (record: TokenRecord | undefined): record is TokenRecord =>
    record !== undefined && !rejected.has(record.accessToken) && !isExpired(record, clock.now());
  const fresh = (record: TokenRecord | undefined): record is TokenRecord =>
    usable(record) && !isDue(record, clock.now());

  const before = (known: Known, previous = current): Known =>
    previous ? { ...known, previous } : known;

  async function renew(challenge: string | undefined): Promise<string> {
    const known = { ...(challenge !== undefined && { challenge }), wider: false };
    return withPerson(before(known), fresh, () =>
      lock.hold(vault.account, async () => {
        const previous = await vault.access();
        if (fresh(previous)) {
          current = previous;
          return previous.accessToken;
        }
        const granted = await grantOrKeep(before(known, previous ?? current)).catch(
          async (error: unknown) => {
            if (previous && isSignedOut(error)) await endIfRejected(previous);
            throw error;
          },
        );
        if (granted === current) return granted.accessToken;
        return keep(granted);
      }),
    );
  }

  async function widen(narrow: string, challenge: string): Promise<string> {
    const known = { challenge, wider: true };
    const isGood = (record: TokenRecord | undefined): record is TokenRecord =>
      fresh(record) && record.accessToken !== narrow;
    return withPerson(before(known), isGood, () =>
      lock.hold(vault.account, async () => {
        const previous = await vault.access();
        if (isGood(previous)) {
          current = previous;
          return previous.accessToken;
        }
        return keep(await grant(before(known, previous ?? current)));
      }),
    );
  }

  async function keep(granted: Granted): Promise<string> {
    if (rejected.has(granted.accessToken))
      throw new TokenError('rejected', `${granted.issuer} issued the rejected token again`);
    current = await vault.save(granted);
    return current.accessToken;
  }

  /** Other processes and `latchkey status` cannot tell from the stored token that the server rejects it. */
  async function endIfRejected({ accessToken: dead }: TokenRecord): Promise<void> {
    if (rejected.has(dead)) await vault.endAccess(dead, clock.now());
  }

  /** The lock is not held while a person reads a page. */
  async function withPerson(
    known: Known,
    isGood: (record: TokenRecord | undefined) => boolean,
    alone: () => Promise<string>,
  ): Promise<string> {
    try {
      return await alone();
    } catch (error) {
      if (!signIn || !isSignedOut(error)) throw error;
      current = await signIn(known, isGood);
      return current.accessToken;
    }
  }

  /** A token that is merely due still serves while its issuer is away. */
  async function grantOrKeep(known: Known): Promise<Granted> {
    try {
      return await grant(known);
    } catch (error) {
      if (!usable(current)) throw error;
      log.warn('token not renewed yet', { reason: error instanceof Error ? error.message : '' });
      return current;
    }
  }

  async function accessToken(refused?: RejectedToken): Promise<string> {
    if (refused?.accessToken !== undefined) rejected.add(refused.accessToken);
    if (firstRead) {
      const reading = firstRead;
      try {
        current ??= await reading;
      } finally {
        if (firstRead === reading) firstRead = undefined;
      }
    }
    if (fresh(current)) return current.accessToken;
    renewal ??= renew(refused?.challenge).finally(() => {
      renewal = undefined;
    });
    return renewal;
  }

  return {
    accessToken,
    async widened({ accessToken: narrow, challenge }) {
      if (usable(current) && current.accessToken !== narrow) return current.accessToken;
      if (widening) return widening;
      // Another process may have signed in since, with more scopes.
      const kept = await vault.access();
      if (fresh(kept) && kept.accessToken !== narrow) {
        current = kept;
        return kept.accessToken;
      }
      // A server that is never content must not send a person to the browser again and again.
      if (asked.has(challenge) || asked.size >= mostWidenings) return undefined;
      asked.add(challenge);
      widening = widen(narrow, challenge).finally(() => {
        widening = undefined;
      });
      return widening;
    },
  };
}

function isSignedOut(error: unknown): boolean {
  return error instanceof TokenError && error.code === 'signed_out';
}
