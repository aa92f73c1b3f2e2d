import type { Writable } from 'node:stream';
import { accountTokens } from '#accounts/account-tokens';
import { bridge } from '#bridge/bridge';
import { signsIn } from '#cli/sign-in-connection';
import { inKeychain, type Connection } from '#config/connection';
import type { Options } from '#config/options';
import { explain } from '#errors';
import { jsonLinesLog, type Log } from '#log/log';
import { TokenError } from '#token/token-source';
import {
  bearerCredential,
  staticCredential,
  withHeaders,
  type Credential,
} from '#upstream/credential';
import { streamableHttp } from '#upstream/streamable-http';
import { openAccount, openSecretStore, type Place } from './open-account.ts';

export type ConnectPorts = Place & {
  input: AsyncIterable<Buffer>;
  output: Writable;
  /** Takes one line of the log. */
  writeLog: (line: string) => void;
  openBrowser: (url: URL) => Promise<boolean>;
  stop: AbortSignal;
};

/** Carries MCP between an assistant and `connection`, until the assistant hangs up or `stop` aborts. */
export async function connect(
  connection: Connection,
  options: Options,
  ports: ConnectPorts,
): Promise<void> {
  const { input, output, clock, http, stop } = ports;
  const { maxMessageBytes } = options;
  const log = jsonLinesLog(options.logLevel, ports.writeLog);
  const credential = await credentialFor(connection, options, ports, log);
  const url = new URL(connection.url);
  await bridge({
    input,
    output,
    upstream: streamableHttp({ url, credential, http, clock, log, maxMessageBytes }),
    clock,
    log,
    maxMessageBytes,
    explain: (error) => explain(error, connection),
    stop,
  });
}

export type CredentialPorts = Place & Pick<ConnectPorts, 'openBrowser' | 'stop'>;

/** How requests of a connection prove who is asking, its kept headers among them. */
export async function credentialFor(
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
