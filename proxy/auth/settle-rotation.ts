import { inKeychain, type Connection } from '#config/connection';
import type { UserHost } from '#host';
import type { Options } from '#config/options';
import type { SecretStore } from '#keychain/secret-store';
import { credentialAccount } from './kept-secrets.ts';
import { secretMarks } from './secret-marks.ts';
import { secretTrial } from './secret-trial.ts';

/**
 * A call has worked: the secret before the one in use is forgotten, if this process began with the new
 * one. Without a trial it takes one look at a file, and none at the keychain.
 *
 * @throws {SecretStoreError}
 */
export async function settleRotation(
  connection: Connection,
  startedAtMs: number,
  options: Options,
  host: UserHost,
  openStore: () => Promise<SecretStore>,
): Promise<void> {
  const { credentials } = connection;
  const value =
    credentials.kind === 'api_key' ? credentials.apiKeySecret : credentials.clientSecret;
  const account = credentialAccount(connection);
  if (value !== inKeychain || account === undefined) return;
  const marks = secretMarks(account, options, host);
  const trialAtMs = await marks.trialAtMs();
  if (trialAtMs === undefined || trialAtMs >= startedAtMs) return;
  await secretTrial(account, await openStore()).proven();
  await marks.settled();
}
