import { existsSync, readFileSync } from 'node:fs';
import { homedir, userInfo } from 'node:os';
import { join } from 'node:path';
import type { Account, OAuthConnection } from '#accounts/account';
import { accountTokens } from '#accounts/account-tokens';
import { fileMarks } from '#accounts/marks';
import { bridge } from '#bridge/bridge';
import { parseCommandLine } from '#cli/parse-command-line';
import { systemClock } from '#clock/clock';
import type { Connection } from '#config/connection';
import { defaultStateDirectory } from '#config/default-state-directory';
import { readOptions, type Options } from '#config/options';
import { readConnection } from '#config/read-connection';
import { UsageError } from '#config/usage-error';
import { httpClient, type HttpClient } from '#http/http-client';
import { explain, words } from '#errors';
import { lazySecretStore } from '#keychain/lazy-secret-store';
import type { SecretStore } from '#keychain/secret-store';
import { sessionBusAddress } from '#keychain/session-bus';
import { jsonLinesLog, type Log } from '#log/log';
import { redact } from '#log/redact';
import { processRefreshLock } from '#token/process-refresh-lock';
import { sqliteRefreshLock } from '#token/sqlite-refresh-lock';
import { tokenAccount } from '#token/token-account';
import { TokenError } from '#token/token-source';
import { tokenVault } from '#token/token-vault';
import { bearerCredential, staticCredential, type Credential } from '#upstream/credential';
import { streamableHttp } from '#upstream/streamable-http';

const machine = { platform: process.platform, home: homedir(), env: process.env };
const clock = systemClock();
const stop = new AbortController();
/** The connection that a command is about, for the words of its errors. */
let subject: Connection | undefined;

async function run(args: string[]): Promise<number> {
  const command = parseCommandLine(args);
  switch (command.command) {
    case 'help': {
      const { help } = await import('#cli/help');
      process.stdout.write(help(command.about));
      return 0;
    }
    case 'version': {
      const { default: manifest } = await import('./package.json', { with: { type: 'json' } });
      process.stdout.write(`${manifest.version}\n`);
      return 0;
    }
    case 'connect': {
      const options = readOptions(command.options, process.env);
      const connection = await readConnection(command.target, options.config, machine, readText);
      await connect(connection, options);
      return 0;
    }
    case 'login':
    case 'logout': {
      const options = readOptions(command.options, process.env);
      subject = await readConnection(command.target, options.config, machine, readText);
      if (!signsIn(subject))
        throw new UsageError(
          `${subject.name} uses an API key, so there is nothing to sign in to`,
          'revoke the key in the dashboard, under Servers',
        );
      const account = await accountFor(subject, options, httpClient());
      if (command.command === 'logout') {
        const { logout } = await import('#cli/logout');
        return (await logout(account, { say, tell })) ? 0 : 1;
      }
      const { login } = await import('#cli/login');
      endOnSignal();
      await login(account, { say, tell, lines: typedLines, openBrowser, signal: stop.signal });
      return 0;
    }
    case 'status': {
      const options = readOptions(command.options, process.env);
      const { status } = await import('#cli/status');
      const { target, json } = command;
      const read = async (name: string) => readConnection(name, options.config, machine, readText);
      const vaultOf = async (connection: Connection) =>
        signsIn(connection)
          ? (await accountFor(connection, options, httpClient())).vault
          : undefined;
      const { userFiles } = await import('#config/user-files');
      const files = options.config === undefined ? userFiles(machine) : [options.config];
      process.stdout.write(
        await status({ target, json, files }, { read, vaultOf, readText, clock }),
      );
      return 0;
    }
  }
}

function signsIn(connection: Connection): connection is OAuthConnection {
  return connection.credentials.kind !== 'api_key';
}

function endOnSignal(): void {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => stop.abort());
}

async function connect(connection: Connection, options: Options): Promise<void> {
  const log = jsonLinesLog(options.logLevel, (line) => process.stderr.write(line));
  const http = httpClient();
  const credential = await credentialFor(connection, options, http, log);
  endOnSignal();
  const { maxMessageBytes } = options;
  const url = new URL(connection.url);
  await bridge({
    input: process.stdin as AsyncIterable<Buffer>,
    output: process.stdout,
    upstream: streamableHttp({ url, credential, http, clock, log, maxMessageBytes }),
    clock,
    log,
    maxMessageBytes,
    explain: (error) => explain(error, connection),
    stop: stop.signal,
  });
}

async function credentialFor(
  connection: Connection,
  options: Options,
  http: HttpClient,
  log: Log,
): Promise<Credential> {
  if (connection.credentials.kind === 'api_key')
    return staticCredential({ 'x-api-key': connection.credentials.apiKeySecret });
  if (!signsIn(connection)) return staticCredential({});
  const account = await accountFor(connection, options, http);
  const asClient = connection.credentials.kind === 'client_credentials';
  const expected = () => asClient || account.marks.signedInBefore();
  const show = async (page: URL) => {
    if (await openBrowser(page)) return undefined;
    throw new TokenError('signed_out', 'no browser can be opened here');
  };
  const { signal } = stop;
  const mode = options.signIn;
  return bearerCredential(
    accountTokens(account, { mode, show, readAhead: expected(), log, signal }),
    expected,
  );
}

async function accountFor(
  connection: OAuthConnection,
  options: Options,
  http: HttpClient,
): Promise<Account> {
  const { url, credentials } = connection;
  const { clientId = '', scopes = [], issuer } = credentials;
  const stateDirectory = options.stateDir ?? defaultStateDirectory(machine);
  const store = lazySecretStore(async () => secretStore(options, stateDirectory));
  const vault = tokenVault(store, await tokenAccount({ url, issuer, clientId, scopes }));
  const alone = options.secretStore === 'memory';
  const locks = join(stateDirectory, 'locks');
  const lock = alone ? processRefreshLock() : sqliteRefreshLock(locks, clock);
  const patientLock = alone ? processRefreshLock() : sqliteRefreshLock(locks, clock, 15 * 60);
  const marks = fileMarks(join(stateDirectory, 'sign-ins'), url, clock, alone);
  return {
    connection,
    http,
    clock,
    store,
    vault,
    lock,
    patientLock,
    marks,
    async readPrivateKey(path) {
      const { readPrivateKey } = await import('#accounts/read-private-key');
      return readPrivateKey(path, process.env['LATCHKEY_PRIVATE_KEY_PASSPHRASE']);
    },
    async listen(where) {
      const { redirectListener } = await import('#loopback/redirect-listener');
      return redirectListener(where, async (ms) => clock.sleep(ms));
    },
  };
}

async function openBrowser(url: URL): Promise<boolean> {
  const browser = await import('#loopback/open-browser');
  return browser.openBrowser(url, { platform: process.platform, env: process.env });
}

async function* typedLines(): AsyncGenerator<string> {
  const { createInterface } = await import('node:readline');
  yield* createInterface({ input: process.stdin });
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function tell(line: string): void {
  process.stderr.write(`${line}\n`);
}
async function secretStore(options: Options, stateDirectory: string): Promise<SecretStore> {
  const { platform } = process;
  if (options.secretStore === 'os') {
    if (platform === 'linux') findSessionBus();
    const { osSecretStore } = await import('#keychain/os-secret-store');
    return osSecretStore({ platform });
  }
  if (options.secretStore === 'memory') {
    const { memorySecretStore } = await import('#keychain/memory-secret-store');
    return memorySecretStore();
  }
  const { fileSecretStore } = await import('#keychain/file-secret-store');
  const keyFile = options.secretStoreKeyFile ?? '';
  return fileSecretStore({ directory: join(stateDirectory, 'secrets'), keyFile, platform });
}

/** The keychain's library asks the environment where the session bus is. */
function findSessionBus(): void {
  const { env, ppid: parentPid } = process;
  const readable = (path: string) => {
    try {
      return readFileSync(path, 'utf8');
    } catch {
      return undefined; // Another user's, or gone.
    }
  };
  const userId = userInfo().uid;
  const address = sessionBusAddress({
    env,
    parentPid,
    userId,
    exists: existsSync,
    readText: readable,
  });
  if (address) env['DBUS_SESSION_BUS_ADDRESS'] = address;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

function report(error: unknown): number {
  const { message, hint } = words(error, subject);
  for (const line of message.split('\n')) process.stderr.write(`latchkey: ${redact(line)}\n`);
  if (hint) process.stderr.write(`hint: ${hint}\n`);
  return error instanceof UsageError ? 2 : 1;
}

const code = await run(process.argv.slice(2)).catch(report);
// Open streams must not keep us, nor must an assistant that does not read what is left.
setTimeout(() => process.exit(code), 500).unref();
process.stdout.write('', () => process.exit(code));
