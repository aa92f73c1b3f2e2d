import { parseObject } from 'latchkey-mcp/json-value';
import type { EpochSeconds } from '#clock/clock';
import { oauthIdentity, type OAuthSettings } from '#config/oauth-fields';
import type { SecretStore } from '#keychain/secret-store';

/** An access token as it is stored. */
export type TokenRecord = {
  accessToken: string;
  obtainedAt: EpochSeconds;
  /** `undefined` if the server does not announce a lifetime. */
  expiresAt?: EpochSeconds;
  issuer: string;
  /** Whether the resource published metadata when the token was fetched. */
  published: boolean;
  /** Its scopes, if the server names them. */
  scope?: string;
  /** The account that a person signed in with, if the authorization server names it. */
  signedInAs?: string;
  /** For a token from the company sign-in: the issuer of the provider, and the client that the token was issued to. */
  provider?: string;
  clientId?: string;
  /** The URL of the server list whose refresh token renews this token. Absent if the connection has its own refresh token. */
  renewedBy?: string;
};

/** Parses a record; `undefined` if an older version or another program wrote something else. */
function parseTokenRecord(text: string | undefined): TokenRecord | undefined {
  const { accessToken, obtainedAt, expiresAt, issuer, published, ...optional } =
    parseObject(text) ?? {};
  const { scope, signedInAs, provider, clientId, renewedBy } = optional;
  if (typeof accessToken !== 'string' || typeof obtainedAt !== 'number') return undefined;
  if (typeof issuer !== 'string' || typeof published !== 'boolean') return undefined;
  const record = {
    accessToken,
    obtainedAt,
    issuer,
    published,
    ...(typeof scope === 'string' && { scope }),
    ...(typeof signedInAs === 'string' && { signedInAs }),
    ...(typeof provider === 'string' && { provider }),
    ...(typeof clientId === 'string' && { clientId }),
    ...(typeof renewedBy === 'string' && { renewedBy }),
  };
  return typeof expiresAt === 'number' ? { ...record, expiresAt } : record;
}

const maxMarginSeconds = 300;

/**
 * Whether to renew the token: in the last tenth of its lifetime, at most five minutes before it expires, or if the clock was
 * set back.
 */
export function isDue({ obtainedAt, expiresAt }: TokenRecord, now: EpochSeconds): boolean {
  if (expiresAt === undefined) return false;
  const margin = Math.min(maxMarginSeconds, (expiresAt - obtainedAt) / 10);
  return now >= expiresAt - margin || now < obtainedAt - maxMarginSeconds;
}

export function isExpired({ expiresAt }: TokenRecord, now: EpochSeconds): boolean {
  return expiresAt !== undefined && now >= expiresAt;
}

/** A refresh token as it is stored, and the client that it was issued to. */
export type RefreshRecord = { refreshToken: string; clientId: string };

/** Parses a record; `undefined` if an older version or another program wrote something else. */
function parseRefreshRecord(text: string | undefined): RefreshRecord | undefined {
  const { refreshToken, clientId } = parseObject(text) ?? {};
  if (typeof refreshToken !== 'string' || typeof clientId !== 'string') return undefined;
  return { refreshToken, clientId };
}

/** What a token is for. Contains no secrets. */
export type TokenPurpose = {
  url: string;
  /** Distinguishes several sign-ins to one URL. */
  account?: string | undefined;
  credentials: OAuthSettings;
};

const prefix = 'access token ';

/** The Windows Credential Manager accepts at most 513 characters. */
const maxAccountLength = 400;

/**
 * The name of a token in the secret store, readable for a person who opens the keychain. It is different for each server,
 * account, and value of an `oauth` field that has an `identity`.
 */
export async function tokenAccount(purpose: TokenPurpose): Promise<string> {
  const { url, account: whose, credentials } = purpose;
  const { always, optional } = oauthIdentity(credentials);
  const words = [url, ...always, whose ?? null, ...optional];
  while (words.at(-1) === null) words.pop();
  // Before there were optional fields, a missing account was written as an empty string.
  const name = 1 + always.length;
  if (words[name] === null) words[name] = '';
  const account = `${prefix}${JSON.stringify(words)}`;
  if (account.length <= maxAccountLength) return account;
  const { createHash } = await import('node:crypto');
  const mark = createHash('sha256').update(account).digest('hex');
  return `${prefix}${new URL(url).host} ${mark}`;
}

/** Whether a name in the secret store is that of an access token. */
export function isTokenAccount(account: string): boolean {
  return account.startsWith(prefix);
}

/** The response of a token endpoint, to be stored. */
export type Granted = TokenRecord & { refresh?: RefreshRecord };

/**
 * The tokens of one connection in a secret store. The access token has its own entry, because starting the proxy requires
 * only that. Callers that change tokens hold the lock of the account.
 */
export function tokenVault(store: SecretStore, account: string) {
  const refreshAccount = (issuer: string) =>
    `refresh ${account.replace(/^access /, '')} ${issuer.slice(0, 100)}`;
  const access = async () => parseTokenRecord(await store.get(account));
  const refresh = async (issuer: string) =>
    parseRefreshRecord(await store.get(refreshAccount(issuer)));

  return {
    account,
    access,
    /** The refresh token, if it is from this issuer. */
    refresh,
    /** The tokens are on disk once this resolves, and must not be used before. */
    async save({ refresh: next, ...token }: Granted): Promise<TokenRecord> {
      const before = await access();
      const keepAccess = async () => store.set(account, JSON.stringify(token));
      // Only the record of the access token names the issuer of the refresh token. So a record with another issuer is stored
      // before the refresh token. Otherwise the refresh token is stored first, because it can restore the access token, but not
      // vice versa.
      const isNowShared = token.renewedBy !== undefined && before?.renewedBy === undefined;
      if (before && (before.issuer !== token.issuer || isNowShared))
        await store.remove(refreshAccount(before.issuer));
      if (before?.issuer !== token.issuer) await keepAccess();
      if (next) await store.set(refreshAccount(token.issuer), JSON.stringify(next));
      if (before?.issuer === token.issuer) await keepAccess();
      return token;
    },
    /** Replaces the refresh token alone. It is on disk once this resolves, and must not be used before. */
    rotate: async (issuer: string, next: RefreshRecord) =>
      store.set(refreshAccount(issuer), JSON.stringify(next)),
    /** Deletes the refresh token, unless another process has replaced it. */
    async dropRefresh(issuer: string, refreshToken: string): Promise<void> {
      const stored = await refresh(issuer);
      if (stored?.refreshToken === refreshToken) await store.remove(refreshAccount(issuer));
    },
    /** Marks the access token as expired, unless another process has replaced it. */
    async endAccess(accessToken: string, endedAt: EpochSeconds): Promise<void> {
      const stored = await access();
      if (stored?.accessToken === accessToken)
        await store.set(account, JSON.stringify({ ...stored, expiresAt: endedAt }));
    },
    /** Marks the access token as expired, and as one that no shared refresh token renews. */
    async leaveShared(endedAt: EpochSeconds): Promise<void> {
      const { renewedBy, ...stored } = (await access()) ?? {};
      if (renewedBy === undefined) return;
      await store.set(account, JSON.stringify({ ...stored, expiresAt: endedAt }));
    },
    /** Returns `false` if there was nothing to delete. */
    async clear(): Promise<boolean> {
      const token = await access();
      const refreshed = token ? await store.remove(refreshAccount(token.issuer)) : false;
      return (await store.remove(account)) || refreshed;
    },
  };
}

export type TokenVault = ReturnType<typeof tokenVault>;
