import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { UsageError } from '#config/usage-error';
import type { Granted } from './token-vault.ts';
import { clientGrant } from './client-grant.ts';
import { credentialAccount } from './kept-secrets.ts';
import type { AccountsHost } from './accounts-host.ts';
import { personGrant } from './person-grant.ts';
import { registeredClients } from './registered-clients.ts';
import { secretMarks } from './secret-marks.ts';
import { secretTrial } from './secret-trial.ts';
import { signsIn } from './signs-in.ts';

/**
 * Replaces the API key or the client secret of a connection: the new one is tried at the server first,
 * then stored beside the old one, which stays until a call has worked with the new one. Ended anywhere in
 * between, the connection works with one of both, and the keychain says which is on trial.
 *
 * @throws what the server's refusal of the new secret brings; the old one is in use then as before
 */
export async function rotateSecret(
  connection: Connection,
  nextSecret: string,
  options: Options,
  host: AccountsHost,
  signal?: AbortSignal,
): Promise<void> {
  const account = credentialAccount(connection);
  if (account === undefined)
    throw new UsageError(
      `${connection.name} has neither a key nor a client secret`,
      'whoever signs in there has nothing to replace',
    );
  const store = await host.store(options);
  if ((await store.get(account)) === undefined)
    throw new UsageError(
      `the keychain has no secret of ${connection.name}`,
      `it stands in ${connection.source}; latchkey import moves it`,
    );
  await host.exclusively(`secret ${account}`, options, async () => {
    const marks = secretMarks(account, options, host);
    const trial = secretTrial(account, store);
    const begin = async (value: string) => {
      await marks.trial(nowMs());
      await trial.begin(value);
      await marks.stored(host.clock.now());
    };
    if (!signsIn(connection)) {
      const credentials = { kind: 'api_key' as const, apiKeySecret: nextSecret };
      await host.check({ ...connection, credentials }, options, signal);
      return begin(nextSecret);
    }
    const { vault, lock } = await host.account(connection, options);
    // Nobody binds or renews with the old secret meanwhile.
    await lock.hold(vault.account, async () => {
      const granted = await grantedWith(nextSecret);
      const { issuer, accessToken, refresh } = granted;
      // The refresh token before it is spent, whatever comes now.
      if (refresh) await vault.save(granted);
      const headers = { ...connection.headers, authorization: `Bearer ${accessToken}` };
      await host.check({ ...connection, headers }, options, signal);
      await begin(JSON.stringify({ clientSecret: nextSecret, issuer }));
      if (!refresh) await vault.save(granted);
    });
  });

  /** Only the token endpoint can tell whether a client's secret is right. */
  async function grantedWith(clientSecret: string): Promise<Granted> {
    if (!signsIn(connection)) throw new TypeError('an API key is no client');
    const { url, credentials } = connection;
    const held = await host.account(connection, options);
    const previous = await held.vault.access();
    const known = { wider: false, ...(previous && { previous }) };
    if (credentials.kind === 'client_credentials')
      return clientGrant({ url, credentials: { ...credentials, clientSecret } }, known, held);
    const clients = registeredClients(held.store);
    const person = { url, credentials: { ...credentials, clientSecret } };
    return personGrant(person, known, { ...held, clients });
  }
}

/** On the clock that {@link settleRotation} compares a process's start with. */
function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
