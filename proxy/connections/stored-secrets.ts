import { ConfigurationError } from '#config/errors';
import { replaceCommand, type Connection } from '#config/connection';
import { isInKeychain, type Secret } from '#config/secret';
import { apiKeyAccount, clientSecretAccount, headerAccount } from '#keychain/secret-accounts';
import type { SecretStore } from '#keychain/secret-store';

/** Secrets of one connection that are not in its configuration. */
export type ConnectionSecrets = {
  apiKeySecret?: string;
  clientSecret?: string;
  /** The issuer that the client secret belongs to, if it is known. */
  issuer?: string;
  /** By the name of the header in lower case. */
  headerSecrets?: Readonly<Record<string, string>>;
};

/** Stores the secrets. They are on disk once this resolves. */
export async function storeSecrets(
  connection: Connection,
  { apiKeySecret, clientSecret, issuer, headerSecrets = {} }: ConnectionSecrets,
  store: SecretStore,
): Promise<void> {
  const { url, credentials } = connection;
  if (apiKeySecret !== undefined) await store.set(apiKeyAccount(connection), apiKeySecret);
  if (clientSecret !== undefined && credentials.kind !== 'api_key') {
    const kept = JSON.stringify({ clientSecret, ...(issuer !== undefined && { issuer }) });
    await store.set(clientSecretAccount(url, credentials.clientId ?? ''), kept);
  }
  for (const [name, secret] of Object.entries(headerSecrets))
    await store.set(headerAccount(connection, name), secret);
}

/** The accounts of the keychain for the connection's own secrets. */
export function storedAccounts(connection: Connection): string[] {
  const { headers = {} } = connection;
  const credential = credentialAccount(connection);
  const secretHeaders = Object.entries(headers).filter(([, value]) => isInKeychain(value));
  return [
    ...(credential === undefined ? [] : [credential]),
    ...secretHeaders.map(([name]) => headerAccount(connection, name)),
  ];
}

/** The account of the key or client secret; `undefined` if the connection has neither. */
export function credentialAccount(connection: Connection): string | undefined {
  const { url, credentials } = connection;
  if (credentials.kind === 'api_key') return apiKeyAccount(connection);
  const { clientId, clientSecret } = credentials;
  return clientSecret === undefined ? undefined : clientSecretAccount(url, clientId ?? '');
}

/** Whether the keychain has the key and the headers that the configuration says are there. */
export async function hasStoredSecrets(
  connection: Connection,
  store: () => Promise<SecretStore>,
): Promise<boolean> {
  const { credentials, headers = {} } = connection;
  const places = [
    ...(credentials.kind === 'api_key' && isInKeychain(credentials.apiKeySecret)
      ? [apiKeyAccount(connection)]
      : []),
    ...Object.entries(headers)
      .filter(([, value]) => isInKeychain(value))
      .map(([name]) => headerAccount(connection, name)),
  ];
  if (places.length === 0) return true;
  const from = await store();
  for (const place of places) if ((await from.get(place)) === undefined) return false;
  return true;
}

/** The secrets that requests of a connection carry. Those in the keychain are read from there. */
export type SentSecrets = { headers?: Record<string, string>; apiKeySecret?: string };

/**
 * The key and headers of a connection.
 *
 * @throws {ConfigurationError} if one of them is missing in the keychain for this URL
 */
export async function sentSecrets(
  connection: Connection,
  store: SecretStore,
): Promise<SentSecrets> {
  const { credentials, headers = {}, source } = connection;
  const read = async (secret: Secret, account: string, key: string) => {
    if (!isInKeychain(secret)) return secret;
    const stored = await store.get(account);
    if (stored !== undefined) return stored;
    const remedy = `store it with ${replaceCommand(connection)}`;
    const problem = `is not in the keychain for ${connection.url}; ${remedy}`;
    throw new ConfigurationError([{ source, key, problem }]);
  };
  const filled: Record<string, string> = {};
  for (const [header, value] of Object.entries(headers))
    filled[header] = await read(value, headerAccount(connection, header), `headers.${header}`);
  if (credentials.kind !== 'api_key') return { headers: filled };
  const apiKeySecret = await read(credentials.apiKeySecret, apiKeyAccount(connection), 'apiKey');
  return { headers: filled, apiKeySecret };
}
