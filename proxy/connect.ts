import type { Writable } from 'node:stream';
import { accountTokens } from '#accounts/account-tokens';
import { bridge } from '#bridge/bridge';
import { signsIn } from '#cli/sign-in-connection';
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import { explain } from '#errors';
import { jsonLinesLog, type Log } from '#log/log';
import { TokenError } from '#token/token-source';
import { bearerCredential, staticCredential, type Credential } from '#upstream/credential';
import { streamableHttp } from '#upstream/streamable-http';
import { openAccount, type Place } from './open-account.ts';

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

async function credentialFor(
  connection: Connection,
  options: Options,
  ports: ConnectPorts,
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
