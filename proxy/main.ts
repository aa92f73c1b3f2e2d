import { existsSync, readFileSync } from 'node:fs';
import { homedir, userInfo } from 'node:os';
import { join } from 'node:path';
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
import type { SecretStore } from '#keychain/secret-store';
import { sessionBusAddress } from '#keychain/session-bus';
import { jsonLinesLog, type Log } from '#log/log';
import { redact } from '#log/redact';
import { processRefreshLock } from '#token/process-refresh-lock';
import { sqliteRefreshLock } from '#token/sqlite-refresh-lock';
import { storedTokenSource, type Grant } from '#token/stored-token-source';
import { tokenAccount } from '#token/token-account';
import { bearerCredential, staticCredential, type Credential } from '#upstream/credential';
import { streamableHttp } from '#upstream/streamable-http';

const machine = { platform: process.platform, home: homedir(), env: process.env };
const clock = systemClock();

async function run(args: string[]): Promise<void> {
  const command = parseCommandLine(args);
  switch (command.command) {
    case 'help': {
      const { help } = await import('#cli/help');
      return void process.stdout.write(help());
    }
    case 'version': {
      const { default: manifest } = await import('./package.json', { with: { type: 'json' } });
      return void process.stdout.write(`${manifest.version}\n`);
    }
    case 'connect': {
      const options = readOptions(command.options, process.env);
      const connection = await readConnection(command.target, options.config, machine, readText);
      return connect(connection, options);
    }
  }
}

async function connect(connection: Connection, options: Options): Promise<void> {
  const log = jsonLinesLog(options.logLevel, (line) => process.stderr.write(line));
  const http = httpClient();
  const credential = await credentialFor(connection, options, http, log);
  const stop = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, () => stop.abort());
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
  { url, credentials }: Connection,
  options: Options,
  http: HttpClient,
  log: Log,
): Promise<Credential> {
  if (credentials.kind === 'none') return staticCredential({});
  if (credentials.kind === 'api_key')
    return staticCredential({ 'x-api-key': credentials.apiKeySecret });
  const { clientId, scopes = [], issuer } = credentials;
  const stateDirectory = options.stateDir ?? defaultStateDirectory(machine);
  const store = await secretStore(options, stateDirectory);
  const grant: Grant = async ({ challenge, previous }) => {
    const { fetchClientToken } = await import('#oauth/fetch-client-token');
    return fetchClientToken({ url, credentials, challenge, previous }, { http, clock });
  };
  const account = await tokenAccount({ url, issuer, clientId, scopes });
  const lock =
    options.secretStore === 'memory'
      ? processRefreshLock()
      : sqliteRefreshLock(join(stateDirectory, 'locks'), clock);
  return bearerCredential(storedTokenSource({ account, store, lock, grant, clock, log }));
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
  const { message, hint } = words(error);
  for (const line of message.split('\n')) process.stderr.write(`latchkey: ${redact(line)}\n`);
  if (hint) process.stderr.write(`hint: ${hint}\n`);
  return error instanceof UsageError ? 2 : 1;
}

const code = await run(process.argv.slice(2)).then(() => 0, report);
// Open streams must not keep us, nor must an assistant that does not read what is left.
setTimeout(() => process.exit(code), 500).unref();
process.stdout.write('', () => process.exit(code));
