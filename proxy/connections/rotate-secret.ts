import type { Connection } from '#config/connection';
import { isInKeychain } from '#config/secret';
import { UsageError } from '#config/errors';
import { signsIn } from '#auth/account';
import type { SecretStore } from '#keychain/secret-store';
import { endpointOf } from './list-url.ts';
import type { BoundHost } from './connections-host.ts';
import type { SecretView } from './accounts-service.ts';
import { registeredClients } from '#auth/client-registration';
import { clientGrant, personGrant } from '#auth/grants';
import { secretMarks, secretTrial } from './secret-trial.ts';
import { credentialAccount } from './stored-secrets.ts';
import type { Granted } from '#auth/token-vault';

/**
 * Replaces the API key or client secret of a connection. The new secret is checked at the server and then stored beside the
 * old one, which stays until a call with the new one succeeds. After a crash at any point, the connection works with one of
 * the two.
 *
 * @throws the error of the server if it refuses the new secret; the old one stays in use then
 */
export async function rotateSecret(
  connection: Connection,
  nextSecret: string,
  host: BoundHost,
  signal?: AbortSignal,
): Promise<void> {
  const store = await host.store();
  const account = await rotatable(connection, store);
  await host.exclusively(`secret ${account}`, async () => {
    const marks = secretMarks(account, host.stateDirectory);
    const trial = secretTrial(account, store);
    const begin = async (value: string) => {
      await marks.trial(nowMs());
      await trial.begin(value);
      await marks.stored(host.clock.now());
    };
    if (!signsIn(connection)) {
      const credentials = { kind: 'api_key' as const, apiKeySecret: nextSecret };
      await host.check({ ...connection, credentials }, signal);
      return begin(nextSecret);
    }
    const { vault, lock } = await host.account(connection);
    // The lock keeps other processes from using the old secret in the meantime.
    await lock.hold(vault.account, async () => {
      const granted = await grantedWith(nextSecret);
      const { issuer, accessToken, refresh } = granted;
      // The previous refresh token is used up, so its successor is stored even if the check fails.
      if (refresh) await vault.save(granted);
      const headers = { ...connection.headers, authorization: `Bearer ${accessToken}` };
      await host.check({ ...connection, headers }, signal);
      await begin(JSON.stringify({ clientSecret: nextSecret, issuer }));
      if (!refresh) await vault.save(granted);
    });
  });

  /** Only the token endpoint can check a client secret. */
  async function grantedWith(clientSecret: string): Promise<Granted> {
    if (!signsIn(connection)) throw new TypeError('an API key is not an OAuth client');
    const { url, credentials } = connection;
    const held = await host.account(connection);
    const previous = await held.vault.access();
    const known = { wider: false, ...(previous && { previous }) };
    if (credentials.kind === 'client_credentials')
      return clientGrant({ url, credentials: { ...credentials, clientSecret } }, known, held);
    const clients = registeredClients(held.store);
    const person = { url, credentials: { ...credentials, clientSecret } };
    return personGrant(person, known, { ...held, clients });
  }
}

/**
 * The account of the keychain with the key or client secret of a connection.
 *
 * @throws {UsageError} if there is none
 */
export async function rotatable(connection: Connection, store: SecretStore): Promise<string> {
  const account = credentialAccount(connection);
  if (account === undefined) {
    const { name, url } = connection;
    const ownKey = endpointOf(url)
      ? `; if the server uses a key of your own, replace it on this page: ${dashboardPage(url, 'account')}`
      : '';
    throw new UsageError(
      `${name} has neither a key nor a client secret`,
      `a personal sign-in has no secret to rotate${ownKey}`,
    );
  }
  if ((await store.get(account)) === undefined)
    throw new UsageError(
      `secret of ${connection.name} not found in the keychain`,
      `the secret is in ${connection.source}; latchkey import moves it to the keychain`,
    );
  return account;
}

/** The current time, on the same clock as the process start time that {@link settleRotation} compares it with. */
function nowMs(): number {
  return performance.timeOrigin + performance.now();
}

const daySeconds = 86_400;
/** The recommended age at which a secret is replaced. */
const oldDays = 90;

/** Facts about the key or client secret of a connection; `undefined` if it is not in the keychain. */
export async function secretView(
  connection: Connection,
  host: BoundHost,
): Promise<SecretView | undefined> {
  const { credentials, url } = connection;
  const isKey = credentials.kind === 'api_key';
  const value = isKey ? credentials.apiKeySecret : credentials.clientSecret;
  const account = credentialAccount(connection);
  if (!isInKeychain(value) || account === undefined) return undefined;
  const marks = secretMarks(account, host.stateDirectory);
  const storedAt = await marks.storedAt();
  const now = host.clock.now();
  // The age of a secret that an older release stored counts from when it is first seen.
  if (storedAt === undefined) await marks.stored(now);
  return {
    kind: isKey ? 'api_key' : 'client_secret',
    ...(storedAt !== undefined && { storedAt }),
    old: storedAt !== undefined && now - storedAt >= oldDays * daySeconds,
    onTrial: await secretTrial(account, await host.store()).isOn(),
    dashboardUrl: dashboardPage(url, isKey ? 'keys' : 'clients'),
  };
}

/** The dashboard page of the keys or clients of a Latchkey server, or of the person's account; the root of any other server. */
function dashboardPage(url: string, what: 'keys' | 'clients' | 'account'): string {
  const { origin, pathname } = new URL(url);
  const [, organization, server] = /^\/mcp\/([^/]+)\/([^/]+)\/?$/.exec(pathname) ?? [];
  if (organization === undefined || server === undefined) return origin;
  return `${origin}/dashboard/${organization}/servers/${server}/${what}`;
}
