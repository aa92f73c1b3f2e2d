/** What a token is for; nothing of it is secret. */
export type TokenPurpose = {
  url: string;
  issuer: string | undefined;
  clientId: string;
  scopes: readonly string[];
};

/** The Windows Credential Manager takes no more than 513 characters. */
const longestAccount = 400;

/**
 * Where a token stands in the secret store, readable for whoever looks into the keychain. Another
 * server, client, issuer or set of scopes is another account.
 */
export async function tokenAccount(purpose: TokenPurpose): Promise<string> {
  const { url, issuer, clientId, scopes } = purpose;
  const words = [url, clientId, [...scopes].sort().join(' '), issuer ?? ''];
  const account = `access token ${JSON.stringify(words)}`;
  if (account.length <= longestAccount) return account;
  const { createHash } = await import('node:crypto');
  const mark = createHash('sha256').update(account).digest('hex');
  return `access token ${new URL(url).host} ${mark}`;
}
