// The names of the secrets of connections in the keychain. They must not change, because secrets are found by these names.
import { createHash } from 'node:crypto';

/** A server, and the account there. */
type Place = { url: string; account?: string };

/** Windows accepts names of at most 513 characters. */
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

/** Whether the account is that of a client's secret, which all connections with that client share. */
export function isClientSecretAccount(account: string): boolean {
  return account.startsWith('client secret ');
}

/** The account of the previous secret, which is kept until the new one has worked. */
export function priorAccount(account: string): string {
  return `prior ${account}`;
}
