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
