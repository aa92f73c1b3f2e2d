import { parseObject } from 'latchkey-mcp/json-value';
import type { EpochSeconds } from '#clock/clock';
import { oauthIdentity, type OAuthSettings } from '#config/oauth-fields';
import type { SecretStore } from '#keychain/secret-store';

/** An access token as the secret store keeps it. */
export type TokenRecord = {
  accessToken: string;
  obtainedAt: EpochSeconds;
  /** `undefined` when the server does not say. */
  expiresAt?: EpochSeconds;
  issuer: string;
  /** Whether the resource published metadata when the token was fetched. */
  published: boolean;
  /** What it is good for, where the server said. */
  scope?: string;
  /** The account that a person signed in with, as the authorization server names it. */
  signedInAs?: string;
};

/** The record in `text`; `undefined` when an older or foreign program wrote something else. */
export function parseTokenRecord(text: string | undefined): TokenRecord | undefined {
  const { accessToken, obtainedAt, expiresAt, issuer, published, scope, signedInAs } =
    parseObject(text) ?? {};
  if (typeof accessToken !== 'string' || typeof obtainedAt !== 'number') return undefined;
  if (typeof issuer !== 'string' || typeof published !== 'boolean') return undefined;
  const record = {
    accessToken,
    obtainedAt,
    issuer,
    published,
    ...(typeof scope === 'string' && { scope }),
    ...(typeof signedInAs === 'string' && { signedInAs }),
  };
  return typeof expiresAt === 'number' ? { ...record, expiresAt } : record;
}

const longestMarginSeconds = 300;

/** Whether it is time for a successor: in the last tenth of its life, at most five minutes ahead. */
export function isDue({ obtainedAt, expiresAt }: TokenRecord, now: EpochSeconds): boolean {
  if (expiresAt === undefined) return false;
  const margin = Math.min(longestMarginSeconds, (expiresAt - obtainedAt) / 10);
  return now >= expiresAt - margin || now < obtainedAt - longestMarginSeconds;
}

export function isExpired({ expiresAt }: TokenRecord, now: EpochSeconds): boolean {
  return expiresAt !== undefined && now >= expiresAt;
}

/** A refresh token as the secret store keeps it, and the client that it was issued to. */
export type RefreshRecord = { refreshToken: string; clientId: string };

/** The record in `text`; `undefined` when an older or foreign program wrote something else. */
export function parseRefreshRecord(text: string | undefined): RefreshRecord | undefined {
  const { refreshToken, clientId } = parseObject(text) ?? {};
  if (typeof refreshToken !== 'string' || typeof clientId !== 'string') return undefined;
  return { refreshToken, clientId };
}

/** What a token is for; nothing of it is secret. */
export type TokenPurpose = {
  url: string;
  /** Whose sign-in it is, where there are several. */
  account?: string | undefined;
  credentials: OAuthSettings;
};

const prefix = 'access token ';

/** The Windows Credential Manager takes no more than 513 characters. */
const longestAccount = 400;

/**
 * The account of a token in the secret store, readable for a person who looks into the keychain. Another server, account,
 * or value of a field with an identity is another account.
 */
export async function tokenAccount(purpose: TokenPurpose): Promise<string> {
  const { url, account: whose, credentials } = purpose;
  const { always, optional } = oauthIdentity(credentials);
  const words = [url, ...always, whose ?? null, ...optional];
  while (words.at(-1) === null) words.pop();
  // An absent name of a connection was written as an empty one before there were optional fields.
  const name = 1 + always.length;
  if (words[name] === null) words[name] = '';
  const account = `${prefix}${JSON.stringify(words)}`;
  if (account.length <= longestAccount) return account;
  const { createHash } = await import('node:crypto');
  const mark = createHash('sha256').update(account).digest('hex');
  return `${prefix}${new URL(url).host} ${mark}`;
}

/** Whether the account is one of tokens, and not of another secret. */
export function isTokenAccount(account: string): boolean {
  return account.startsWith(prefix);
}

/** What a token endpoint gave us, ready to be kept. */
export type Granted = TokenRecord & { refresh?: RefreshRecord };

/**
 * The tokens of one connection in a secret store, one entry a value. The access token has an entry
 * of its own, because it is all that a start needs. Changes require the lock of the account.
 */
export interface TokenVault {
  readonly account: string;

  access(): Promise<TokenRecord | undefined>;

  /** The refresh token of that issuer, and of no other. */
  refresh(issuer: string): Promise<RefreshRecord | undefined>;

  /** Durable once resolved. The tokens must not be used before. */
  save(granted: Granted): Promise<TokenRecord>;

  /** Deletes the refresh token, unless another process has replaced it. */
  dropRefresh(issuer: string, refreshToken: string): Promise<void>;

  /** Marks the access token as expired, unless another process has replaced it. */
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
