import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { registryFile } from '#config/registry-file';
import { UsageError } from '#config/usage-error';
import { forgetSecrets } from './forget-secrets.ts';
import { looseSecrets } from './loose-secrets.ts';
import { ownAccounts } from './own-accounts.ts';
import type { AccountsHost } from './accounts-host.ts';
import { registered, setRegistered } from './registry.ts';
import { signOutConnection } from './sign-out-connection.ts';
import { signsIn } from './signs-in.ts';
import type { SignedOut } from './sign-out.ts';
import { whileNobodySweeps } from './sweep-secrets.ts';

export type Removed = SignedOut & { connection: Connection };

/**
 * Signs out at the server, and forgets a connection of our own with its secrets: the entry first, so that
 * nothing starts that has lost its secret.
 *
 * @throws {UsageError} when there is none of that name
 */
export async function removeConnection(
  name: string,
  options: Options,
  host: AccountsHost,
): Promise<Removed> {
  const connection = await registered(name, options, host);
  if (!connection)
    throw new UsageError(
      `there is no connection ${name} in ${registryFile(host)}`,
      'latchkey status shows which there are',
    );
  const signedOut = signsIn(connection)
    ? await signOutConnection(await host.account(connection, options))
    : { wasSignedIn: false };
  const loose = looseSecrets(options, host);
  await whileNobodySweeps(options, host, async () => {
    const accounts = await ownAccounts(connection, options, host);
    const goes = accounts.map((account) => ({ account, file: connection.source }));
    await loose.note(goes);
    await setRegistered(name, undefined, options, host);
    const unknown = await forgetSecrets(connection, options, host);
    await loose.settled(goes.filter(({ account }) => !unknown.includes(account)));
  });
  await host.forgetKept(connection.url, options);
  return { ...signedOut, connection };
}
