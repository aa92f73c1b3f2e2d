import type { EpochSeconds } from '#clock/clock';
import type { SecretStore } from '#keychain/secret-store';
import { parseRefreshRecord, type RefreshRecord } from './refresh-record.ts';
import { parseTokenRecord, type TokenRecord } from './token-record.ts';

/** What a token endpoint gave us, ready to be kept. */
export type Granted = TokenRecord & { refresh?: RefreshRecord };

/**
 * The tokens of one connection in a secret store, one entry a value. The access token stands alone,
 * as it is all that a start needs. Whoever changes anything holds the lock of the account.
 */
export interface TokenVault {
  readonly account: string;

  access(): Promise<TokenRecord | undefined>;

  /** The refresh token of that issuer, and of no other. */
  refresh(issuer: string): Promise<RefreshRecord | undefined>;

  /** Durable once resolved; what is not is not to be used. */
  save(granted: Granted): Promise<TokenRecord>;

  /** Forgets the refresh token, unless somebody has put another one there. */
  dropRefresh(issuer: string, refreshToken: string): Promise<void>;

  /** Lets the access token be over from now on, unless somebody has put another one there. */
  endAccess(accessToken: string, endedAt: EpochSeconds): Promise<void>;

  /** `false` when there was nothing. */
  clear(): Promise<boolean>;
}

export function tokenVault(store: SecretStore, account: string): TokenVault {
  const refreshAccount = (issuer: string) =>
    `refresh ${account.replace(/^access /, '')} ${issuer.slice(0, 100)}`;
  const access = async () => parseTokenRecord(await store.get(account));
  const refresh = async (issuer: string) =>
    parseRefreshRecord(await store.get(refreshAccount(issuer)));

  return {
    account,
    access,
    refresh,
    async save({ refresh: next, ...token }) {
      const before = await access();
      const keepAccess = async () => store.set(account, JSON.stringify(token));
      // The access token alone says whose the refresh token is: a first one is stored before it. A later
      // one after it, as the refresh token brings another, not vice versa.
      if (before && before.issuer !== token.issuer)
        await store.remove(refreshAccount(before.issuer));
      if (before?.issuer !== token.issuer) await keepAccess();
      if (next) await store.set(refreshAccount(token.issuer), JSON.stringify(next));
      if (before?.issuer === token.issuer) await keepAccess();
      return token;
    },
    async dropRefresh(issuer, refreshToken) {
      const kept = await refresh(issuer);
      if (kept?.refreshToken === refreshToken) await store.remove(refreshAccount(issuer));
    },
    async endAccess(accessToken, endedAt) {
      const kept = await access();
      if (kept?.accessToken === accessToken)
        await store.set(account, JSON.stringify({ ...kept, expiresAt: endedAt }));
    },
    async clear() {
      const token = await access();
      const refreshed = token ? await store.remove(refreshAccount(token.issuer)) : false;
      return (await store.remove(account)) || refreshed;
    },
  };
}
