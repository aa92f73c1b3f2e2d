import { inKeychain, type Connection } from '#config/connection';
import type { Options } from '#config/options';
import type { SecretView } from './accounts-door.ts';
import { credentialAccount } from './kept-secrets.ts';
import type { AccountsHost } from './accounts-host.ts';
import { secretMarks } from './secret-marks.ts';
import { secretTrial } from './secret-trial.ts';

const daySeconds = 86_400;
/** A key that has been in use for so long is to be replaced. */
export const oldDays = 90;

/** What is known of the key or client secret of a connection, where it is in the keychain. */
export async function secretView(
  connection: Connection,
  options: Options,
  host: AccountsHost,
): Promise<SecretView | undefined> {
  const { credentials, url } = connection;
  const isKey = credentials.kind === 'api_key';
  const value = isKey ? credentials.apiKeySecret : credentials.clientSecret;
  const account = credentialAccount(connection);
  if (value !== inKeychain || account === undefined) return undefined;
  const marks = secretMarks(account, options, host);
  const storedAt = await marks.storedAt();
  const now = host.clock.now();
  // What an older release stored begins to age when it is first seen.
  if (storedAt === undefined) await marks.stored(now);
  return {
    kind: isKey ? 'api_key' : 'client_secret',
    ...(storedAt !== undefined && { storedAt }),
    old: storedAt !== undefined && now - storedAt >= oldDays * daySeconds,
    onTrial: await secretTrial(account, await host.store(options)).isOn(),
    dashboardUrl: dashboardUrl(url, isKey ? 'keys' : 'clients'),
  };
}

/** The page of a server's keys or clients, where the URL is one of ours; else its root. */
function dashboardUrl(url: string, what: 'keys' | 'clients'): string {
  const { origin, pathname } = new URL(url);
  const [, organization, server] = /^\/mcp\/([^/]+)\/([^/]+)\/?$/.exec(pathname) ?? [];
  if (organization === undefined || server === undefined) return origin;
  return `${origin}/dashboard/${organization}/servers/${server}/${what}`;
}
