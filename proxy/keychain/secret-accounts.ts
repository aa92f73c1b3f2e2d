// The names of the secrets of connections in the keychain. They must not change: they are how a secret is found again.
import { createHash } from 'node:crypto';

/** A server, and whose account there. */
type Place = { url: string; account?: string };

/** Windows takes no longer name than 513 characters. */
const longestName = 400;

/** The account of a key in the keychain, for exactly this URL and account. */
export function apiKeyAccount({ url, account = '' }: Place): string {
  return shortened('api key', [url, account]);
}

export function headerAccount({ url, account = '' }: Place, header: string): string {
  return shortened('header', [url, account, header]);
}

function shortened(kind: string, words: string[]): string {
  const name = `${kind} ${JSON.stringify(words)}`;
  if (name.length <= longestName) return name;
  return `${kind} ${createHash('sha256').update(name).digest('hex')}`;
}

export function clientSecretAccount(url: string, clientId: string): string {
  return shortened('client secret', [url, clientId]);
}

/** The account of a person's sign-in at a company's identity provider, which all connections that name that provider share. */
export function providerAccount({
  issuer,
  clientId,
}: {
  issuer: string;
  clientId: string;
}): string {
  return shortened('identity provider', [issuer, clientId]);
}

/** Whether the account is that of a client's secret, which all connections by that client share. */
export function isClientSecretAccount(account: string): boolean {
  return account.startsWith('client secret ');
}

/** The account of the secret before it, until the new one has worked. */
export function priorAccount(account: string): string {
  return `prior ${account}`;
}
