import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { credentialAccount, priorAccount, type ConnectionSecrets } from './kept-secrets.ts';
import type { AccountsHost } from './accounts-host.ts';
import { secretMarks } from './secret-marks.ts';

/** A key or client secret has just been stored: it begins to age, and no other is on trial. */
export async function noteStored(
  connection: Connection,
  { apiKeySecret, clientSecret }: ConnectionSecrets,
  options: Options,
  host: AccountsHost,
): Promise<void> {
  const account = credentialAccount(connection);
  if (account === undefined || (apiKeySecret ?? clientSecret) === undefined) return;
  const marks = secretMarks(account, options, host);
  await (await host.store(options)).remove(priorAccount(account));
  await marks.settled();
  await marks.stored(host.clock.now());
}
