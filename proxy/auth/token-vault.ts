import type { EpochSeconds } from '#clock/clock';
import type { SecretStore } from '#keychain/secret-store';

/** An access token as it stands in the secret store. */
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
  try {
    const value: Record<string, unknown> | null = JSON.parse(text ?? 'null');
    const { accessToken, obtainedAt, expiresAt, issuer, published, scope, signedInAs } =
      value ?? {};
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
  } catch {
    return undefined;
  }
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

/** A refresh token as it stands in the secret store, and the client it was given to. */
export type RefreshRecord = { refreshToken: string; clientId: string };

/** The record in `text`; `undefined` when an older or foreign program wrote something else. */
export function parseRefreshRecord(text: string | undefined): RefreshRecord | undefined {
  try {
    const value: Record<string, unknown> | null = JSON.parse(text ?? 'null');
    const { refreshToken, clientId } = value ?? {};
    if (typeof refreshToken !== 'string' || typeof clientId !== 'string') return undefined;
    return { refreshToken, clientId };
  } catch {
    return undefined;
  }
}

/** What a token is for; nothing of it is secret. */
export type TokenPurpose = {
  url: string;
  issuer: string | undefined;
  clientId: string;
  scopes: readonly string[];
  /** Whose sign-in it is, where there are several. */
  account?: string | undefined;
  /** The `resource` that the user wants tokens for. RFC 8707 */
  resource?: string | undefined;
};

const prefix = 'access token ';

/** The Windows Credential Manager takes no more than 513 characters. */
const longestAccount = 400;

/**
 * Where a token stands in the secret store, readable for whoever looks into the keychain. Another
 * server, client, issuer, set of scopes, account or resource is another account.
 */
export async function tokenAccount(purpose: TokenPurpose): Promise<string> {
  const { url, issuer, clientId, scopes, account: whose, resource } = purpose;
  const more = resource === undefined ? [whose ?? []].flat() : [whose ?? '', resource];
  const words = [url, clientId, [...scopes].sort().join(' '), issuer ?? '', ...more];
  const account = `${prefix}${JSON.stringify(words)}`;
  if (account.length <= longestAccount) return account;
  const { createHash } = await import('node:crypto');
  const mark = createHash('sha256').update(account).digest('hex');
  return `${prefix}${new URL(url).host} ${mark}`;
}

/** Whether tokens stand there, and no other secret. */
export function isTokenAccount(account: string): boolean {
  return account.startsWith(prefix);
}

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
