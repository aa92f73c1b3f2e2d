import type { AccountsHost } from '#auth/accounts-host';
import { join } from 'node:path';
import { registeredClients } from '#auth/client-registration';
import type { Connection } from './connection.ts';
import type { Options } from './options.ts';
import { dropRemoteSignIn, remoteSignIn } from './remote-cache.ts';
import { signsIn } from '#auth/account';

/**
 * Moves the sign-in that mcp-remote has for a connection into the keychain: where the server names the
 * very issuer it came from, and its client can be kept too. Else the person signs in again.
 */
export async function takeOverSignIn(
  connection: Connection,
  remoteHash: string | undefined,
  options: Options,
  host: AccountsHost,
): Promise<boolean> {
  if (remoteHash === undefined || !signsIn(connection)) return false;
  const folder = host.env['MCP_REMOTE_CONFIG_DIR'] || join(host.home, '.mcp-auth');
  const found = await remoteSignIn(remoteHash, connection.credentials.clientId, folder);
  if (!found) return false;
  // A server that cannot be asked now leaves everything as it is.
  const checked = await host.check(connection, options).catch(() => undefined);
  const { issuer, clientId, client, accessToken, refreshToken, scope, expiresAt } = found;
  if (checked?.as !== 'person' || checked.issuer !== issuer) return false;
  const { vault, lock, marks, store, clock } = await host.account(connection, options);
  const clients = registeredClients(store);
  const known = await clients.of(issuer);
  if (client && known && known.clientId !== clientId) return false;
  await lock.hold(vault.account, async () => {
    if (client) await clients.keep({ clientId, issuer, ...client });
    await vault.save({
      accessToken,
      obtainedAt: clock.now(),
      issuer,
      published: checked.published ?? false,
      ...(scope !== undefined && { scope }),
      ...(expiresAt !== undefined && { expiresAt }),
      refresh: { refreshToken, clientId },
    });
  });
  await marks.rememberSignedIn();
  await dropRemoteSignIn(found);
  return true;
}
