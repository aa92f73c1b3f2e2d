import { accountTokens } from '#accounts/account-tokens';
import { signsIn } from '#cli/sign-in-connection';
import { inKeychain, type Connection } from '#config/connection';
import type { Options } from '#config/options';
import type { Log } from '#log/log';
import { TokenError } from '#token/token-source';
import {
  bearerCredential,
  staticCredential,
  withHeaders,
  type Credential,
} from '#upstream/credential';
import { openAccount, openSecretStore, type Place } from './open-account.ts';

export type CredentialPorts = Place & {
  openBrowser: (url: URL) => Promise<boolean>;
  stop: AbortSignal;
};

/** How requests of a connection prove who is asking, its kept headers among them. */
export async function openCredential(
  configured: Connection,
  options: Options,
  ports: CredentialPorts,
  log: Log,
): Promise<Credential> {
  const connection = await filled(configured, options, ports);
  const { headers } = connection;
  // A header that somebody chose is the credential then; no other is fetched.
  if (headers && ('authorization' in headers || 'x-api-key' in headers))
    return staticCredential(headers);
  const credential = await ownCredential(connection, options, ports, log);
  return headers ? withHeaders(credential, headers) : credential;
}

/** With its secrets from the keychain, where the configuration says that they are there. */
async function filled(
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
): Promise<Connection> {
  const { credentials, headers = {} } = connection;
  const key = credentials.kind === 'api_key' ? [credentials.apiKeySecret] : [];
  if (![...key, ...Object.values(headers)].includes(inKeychain)) return connection;
  const { withKeptSecrets } = await import('#accounts/kept-secrets');
  return withKeptSecrets(connection, await openSecretStore(options, ports));
}

async function ownCredential(
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
  log: Log,
): Promise<Credential> {
  if (connection.credentials.kind === 'api_key')
    return staticCredential({ 'x-api-key': connection.credentials.apiKeySecret });
  if (!signsIn(connection)) return staticCredential({});
  const account = await openAccount(connection, options, ports);
  const asClient = connection.credentials.kind === 'client_credentials';
  const expected = () => asClient || account.marks.signedInBefore();
  const show = async (page: URL) => {
    if (await ports.openBrowser(page)) return undefined;
    throw new TokenError('signed_out', 'no browser can be opened here');
  };
  const { stop: signal } = ports;
  const mode = options.signIn;
  return bearerCredential(
    accountTokens(account, { mode, show, readAhead: expected(), log, signal }),
    expected,
  );
}
