import type { OAuthSettings } from '#config/connection';
import type { SecretStore } from '#keychain/secret-store';
import type { OAuthClient } from './oauth-client.ts';
import { OAuthError } from './oauth-error.ts';

export type ReadPrivateKey = NonNullable<OAuthClient['privateKey']>;

export type ConfiguredClientPorts = {
  store: SecretStore;
  /** Reads a PEM file, with the passphrase from the environment. */
  readPrivateKey: (path: string) => ReturnType<ReadPrivateKey>;
};

/** A client, and the issuer that its stored secret was first used with. */
export type ConfiguredClient = OAuthClient & { boundIssuer?: string };

export const secretAccount = (url: string, clientId: string) =>
  `client secret ${JSON.stringify([url, clientId])}`.slice(0, 400);

/** Whether the secret of a client stands there, which every connection by that client shares. */
export function isClientSecretAccount(account: string): boolean {
  return account.startsWith('client secret ');
}

/**
 * The client that the configuration names; `undefined` when it names none. A secret that was moved to
 * the keychain is there for this very URL.
 *
 * @throws {OAuthError} `client` when the keychain has no such secret
 */
export async function configuredClient(
  url: string,
  { clientId, clientSecret, privateKeyFile }: OAuthSettings,
  { store, readPrivateKey }: ConfiguredClientPorts,
): Promise<ConfiguredClient | undefined> {
  if (clientId === undefined) return undefined;
  if (privateKeyFile !== undefined)
    return { clientId, privateKey: async () => readPrivateKey(privateKeyFile) };
  if (clientSecret === undefined) return { clientId };
  if (clientSecret !== 'keychain') return { clientId, clientSecret };
  const kept = parse(await store.get(secretAccount(url, clientId)));
  if (kept) return { clientId, ...kept };
  throw new OAuthError('client', `the keychain has no secret of ${clientId} for ${url}`, {
    endpoint: url,
  });
}

/** Ties a stored secret to the issuer it went to; for another it is refused from then on. */
export async function bindSecret(
  url: string,
  { clientId, clientSecret, boundIssuer }: ConfiguredClient,
  issuer: string,
  store: SecretStore,
): Promise<void> {
  if (boundIssuer === issuer) return;
  // Somebody may have put another one there since, which is not ours to overwrite.
  const kept = parse(await store.get(secretAccount(url, clientId)));
  if (kept?.clientSecret !== clientSecret) return;
  await store.set(secretAccount(url, clientId), JSON.stringify({ clientSecret, issuer }));
}

function parse(
  text: string | undefined,
): { clientSecret: string; boundIssuer?: string } | undefined {
  try {
    const value: Record<string, unknown> | null = JSON.parse(text ?? 'null');
    const { clientSecret, issuer } = value ?? {};
    if (typeof clientSecret !== 'string') return undefined;
    return { clientSecret, ...(typeof issuer === 'string' && { boundIssuer: issuer }) };
  } catch {
    return undefined;
  }
}
