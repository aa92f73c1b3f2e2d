import type { Clock } from '#clock/clock';
import type { SecretStore } from '#keychain/secret-store';
import type { Log } from '#log/log';
import type { RefreshLock } from './refresh-lock.ts';
import { isDue, isExpired, parseTokenRecord, type TokenRecord } from './token-record.ts';
import { TokenError, type RejectedToken, type TokenSource } from './token-source.ts';

/** Fetches a new token, knowing the challenge that made it necessary and what was there before. */
export type Grant = (known: { challenge?: string; previous?: TokenRecord }) => Promise<TokenRecord>;

export type StoredTokenSourceOptions = {
  /** Where the token stands in the store; one for each server, client and set of scopes. */
  account: string;
  store: SecretStore;
  lock: RefreshLock;
  grant: Grant;
  clock: Clock;
  log: Log;
};

/**
 * Tokens that outlive the process: read from the store at once, renewed ahead of expiry, by one
 * caller of one process for all others. A new token is used only once it is safely stored, since
 * the next one may depend on it.
 */
export function storedTokenSource(options: StoredTokenSourceOptions): TokenSource {
  const { account, store, lock, grant, clock, log } = options;
  const rejected = new Set<string>();
  let current: TokenRecord | undefined;
  let renewal: Promise<string> | undefined;

  const read = async () => parseTokenRecord(await store.get(account));
  // Begun before anyone asks: a keychain takes as long as starting up does.
  let firstRead: Promise<TokenRecord | undefined> | undefined = read();
  firstRead.catch(() => undefined);

  const usable = (record: TokenRecord | undefined): record is TokenRecord =>
    record !== undefined && !rejected.has(record.accessToken) && !isExpired(record, clock.now());
  const fresh = (record: TokenRecord | undefined): record is TokenRecord =>
    usable(record) && !isDue(record, clock.now());

  async function renew(challenge: string | undefined): Promise<string> {
    return lock.hold(account, async () => {
      const previous = await read();
      if (fresh(previous)) {
        current = previous;
        return previous.accessToken;
      }
      const granted = await grantOrKeep(challenge, previous ?? current);
      if (granted === current) return granted.accessToken;
      if (rejected.has(granted.accessToken))
        throw new TokenError('rejected', `${granted.issuer} hands out the rejected token again`);
      await store.set(account, JSON.stringify(granted));
      current = granted;
      return granted.accessToken;
    });
  }

  /** A token that is merely due still serves while its issuer is away. */
  async function grantOrKeep(challenge: string | undefined, previous: TokenRecord | undefined) {
    try {
      return await grant({
        ...(challenge !== undefined && { challenge }),
        ...(previous && { previous }),
      });
    } catch (error) {
      if (!usable(current)) throw error;
      log.warn('token not renewed yet', { reason: error instanceof Error ? error.message : '' });
      return current;
    }
  }

  async function accessToken(refused?: RejectedToken): Promise<string> {
    if (refused) rejected.add(refused.accessToken);
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

  return { accessToken };
}
