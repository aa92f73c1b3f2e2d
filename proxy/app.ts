// What connections are composed of: `connect` for the bridge of `latchkey NAME`, then the credential that all
// requests of a connection carry, the check of a new connection, and the doctor. `main.ts` and `host.ts` load this
// file when it is needed; parts that the bridge does not use are loaded by the functions that do.
import type { Writable } from 'node:stream';
import { readMessage } from 'latchkey-mcp/raw-message';
import { signsIn } from '#auth/account';
import { signInService } from '#auth/sign-in-service';
import { accountTokens } from '#auth/token-source';
import type { TokenRecord } from '#auth/token-vault';
import { wakeWatch } from '#clock/clock';
import { inKeychain, type Connection } from '#config/connection';
import type { Options, SignInMode } from '#config/options';
import { defaultStateDirectory } from '#config/user-files';
import { explain, loginCommand, troubleOf, words } from '#errors';
import {
  openAccount,
  openSecretStore,
  type AccountHost,
  type AccountsHost,
  type Checked,
  type Host,
} from '#host';
import { withMemoryFallback } from '#keychain/secret-store';
import { jsonLinesLog, type Log } from '#log/log';
import { bridge } from '#pipeline/bridge';
import { openPipeline } from '#pipeline/pipeline';
import type { SignInService } from '#pipeline/sign-in-page';
import type { Check } from '#status/checks';
import type { DoctorProgress, Examined } from '#status/doctor';
import { statusReporter, type StatusReporter } from '#status/status-reporter';
import {
  bearerCredential,
  rereadCredential,
  staticCredential,
  withHeaders,
  type Credential,
} from '#transport/credential';
import type { NetworkSettings } from '#transport/http-client';
import { streamableHttp } from '#transport/streamable-http';
import { openTracing } from '#tracing';
import { UpstreamError } from '#transport/upstream';

export type ConnectPorts = Host & {
  input: AsyncIterable<Buffer>;
  output: Writable;
  stop: AbortSignal;
};

/** Carries MCP between an assistant and `connection`, until the assistant hangs up or `stop` aborts. */
export async function connect(
  connection: Connection,
  options: Options,
  ports: ConnectPorts,
): Promise<void> {
  const { input, output, clock, stop } = ports;
  const { maxMessageBytes } = options;
  const log = jsonLinesLog(options.logLevel, ports.writeLog);
  // Nothing signs in before the first request, which the presence observes.
  const assistant = () => presence.assistant();
  const identity = await openCredential(connection, options, { ...ports, assistant }, log);
  const presence = openPresence(connection, options, identity, ports, log);
  const explained = (error: unknown) => explain(error, connection);
  const tracing = await openTracing(ports.env, 'latchkey', log);
  const upstream = openPipeline(connection, options, {
    host: ports,
    log,
    tracing,
    credential: identity.credential,
    account: identity.account,
    signInService: identity.signInService,
    troubleOf: (error) => troubleOf(error, options.signIn),
    explain: (error) => explained(error).failure.message,
    status: presence,
    observe: (cache) =>
      presence.step(async (request) =>
        request === 'sign_in_done' ? cache.signedInElsewhere() : cache.tryNow(),
      ),
  });
  try {
    await bridge({
      input,
      output,
      upstream,
      clock,
      log,
      maxMessageBytes,
      explain: explained,
      stop,
    });
  } finally {
    await Promise.all([presence.close(), tracing?.close()]);
  }
}

/** Reports the status of the proxy of `connection` to other programs of this user. */
function openPresence(
  connection: Connection,
  options: Options,
  identity: Identity,
  ports: ConnectPorts,
  log: Log,
): StatusReporter {
  const { clock, platform, pid } = ports;
  return statusReporter({
    connection,
    version: async () => {
      const { default: manifest } = await import('./package.json', { with: { type: 'json' } });
      return manifest.version;
    },
    stateDirectory: options.stateDir ?? defaultStateDirectory(ports),
    platform,
    pid,
    clock,
    log,
    signInService: identity.signInService,
    token: identity.token,
    // A secret that was replaced before this process started is the one that has just worked.
    async worked() {
      const { settleRotation } = await import('#auth/secret-trial');
      const store = async () => openSecretStore(options, ports);
      await settleRotation(connection, performance.timeOrigin, options, ports, store);
    },
    faultOf(error) {
      const reason = explain(error, connection).failure.message;
      const trouble = troubleOf(error, 'auto');
      if (trouble === undefined) return { state: 'trouble', reason };
      return { state: trouble === 'offline' ? 'offline' : 'needs_sign_in', reason };
    },
  });
}

export type CredentialPorts = Pick<Host, keyof AccountHost | 'openBrowser'> & {
  stop: AbortSignal;
  /** What people call the assistant that started this process, once it has said so. */
  assistant?: () => string | undefined;
};

/** How a connection authenticates to its server. */
export type Identity = {
  credential: Credential;
  /** Tells one caller from another. It may be a key: only its hash is written. */
  account: string;
  /** Signs a person in if that is required. */
  signInService?: SignInService;
  /** The stored access token, if the connection uses one. */
  token?: () => Promise<TokenRecord | undefined>;
};

/** How long after its start a proxy may open the browser unasked. Later it would be a surprise. */
const startSeconds = 60;
/** How long after the computer has woken up it may not. */
const wakingSeconds = 60;

/** The credential of a connection's requests, with its configured headers. */
export async function openCredential(
  configured: Connection,
  options: Options,
  ports: CredentialPorts,
  log: Log,
): Promise<Identity> {
  const connection = await withSecrets(configured, options, ports);
  const { headers } = connection;
  // A configured header of this kind is the credential. No other is fetched.
  if (headers && ('authorization' in headers || 'x-api-key' in headers))
    return { credential: staticCredential(headers), account: JSON.stringify(headers) };
  const own = hasStoredKey(configured)
    ? storedKey(configured, connection, options, ports)
    : await ownIdentity(connection, options, ports, log);
  if (!headers) return own;
  const account = JSON.stringify([own.account, headers]);
  return { ...own, credential: withHeaders(own.credential, headers), account };
}

/** The connection, with its secrets from the keychain if the configuration says that they are there. */
async function withSecrets(
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
): Promise<Connection> {
  const { credentials, headers = {} } = connection;
  const key = credentials.kind === 'api_key' ? [credentials.apiKeySecret] : [];
  if (![...key, ...Object.values(headers)].includes(inKeychain)) return connection;
  const { withStoredSecrets } = await import('#auth/stored-secrets');
  return withStoredSecrets(connection, await openSecretStore(options, ports));
}

function hasStoredKey({ credentials }: Connection): boolean {
  return credentials.kind === 'api_key' && credentials.apiKeySecret === inKeychain;
}

/** A key in the keychain may be replaced there while we run. */
function storedKey(
  configured: Connection,
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
): Identity {
  const keyOf = ({ credentials }: Connection) =>
    credentials.kind === 'api_key' ? credentials.apiKeySecret : '';
  const header = (key: string) => ({ 'x-api-key': key });
  const reread = async () => header(keyOf(await withSecrets(configured, options, ports)));
  const credential = rereadCredential(header(keyOf(connection)), reread);
  return { credential, account: keyOf(connection) };
}

/** Whether the credential that brings tokens is in the environment or the configuration, not in the keychain. */
function canFetchAgain({ credentials }: Connection): boolean {
  return credentials.kind === 'client_credentials' && credentials.clientSecret !== inKeychain;
}

async function ownIdentity(
  connection: Connection,
  options: Options,
  ports: CredentialPorts,
  log: Log,
): Promise<Identity> {
  const { credentials } = connection;
  if (credentials.kind === 'api_key') {
    const { apiKeySecret } = credentials;
    return { credential: staticCredential({ 'x-api-key': apiKeySecret }), account: apiKeySecret };
  }
  if (!signsIn(connection)) return { credential: staticCredential({}), account: '' };
  const account = await openAccount(connection, options, ports, async () => {
    const store = await openSecretStore(options, ports);
    if (options.secretStore !== 'os' || options.requiresKeychain || !canFetchAgain(connection))
      return store;
    return withMemoryFallback(store, ({ message: reason }) => {
      log.warn('no keychain is available; tokens are kept in memory until the proxy ends', {
        reason,
      });
    });
  });
  const asClient = connection.credentials.kind === 'client_credentials';
  const expected = () => asClient || account.marks.signedInBefore();
  const { signIn: mode } = options;
  const { openBrowser, assistant, stop: signal } = ports;
  const isTimely = timely(mode);
  const service = signInService(account, { mode, openBrowser, isTimely, assistant, signal });
  const tokens = accountTokens(account, { signInService: service, readAhead: expected(), log });
  return {
    credential: bearerCredential(tokens, expected),
    account: account.vault.account,
    token: async () => account.vault.access(),
    ...(!asClient && {
      signInService: { ...service, waits: mode === 'always', command: loginCommand(connection) },
    }),
  };
}

/** The browser opens unasked soon after the start, or at any time in the mode `always`; never right after a sleep. */
function timely(mode: SignInMode): () => boolean {
  const steady = () => performance.now();
  const watch = wakeWatch(() => Date.now(), steady);
  const startedAtMs = steady();
  return () => {
    if (watch.wokeWithin(wakingSeconds)) return false;
    return mode === 'always' || steady() - startedAtMs < startSeconds * 1_000;
  };
}

const checkTimeoutMs = 60_000;

const handshake = Buffer.from(
  '{"jsonrpc":"2.0","id":"latchkey","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"latchkey","version":"0"}}}',
);

/**
 * Performs the handshake of an assistant with the server, and closes the connection. If the server requires a person
 * to sign in, it only finds out where; no browser opens.
 *
 * @throws the errors of a connection
 */
export async function checkConnection(
  connection: Connection,
  options: Options,
  ports: CredentialPorts & Pick<Host, 'writeLog'>,
): Promise<Checked> {
  const { credentials, headers = {} } = connection;
  const { clock, http, stop } = ports;
  const log = jsonLinesLog(options.logLevel, ports.writeLog);
  const chosen = 'authorization' in headers || 'x-api-key' in headers;
  const person = credentials.kind === 'authorization_code' && !chosen;
  const identity = person
    ? { credential: staticCredential(headers) }
    : await openCredential(connection, options, ports, log);
  const upstream = streamableHttp({
    url: new URL(connection.url),
    credential: identity.credential,
    http,
    clock,
    log,
    maxMessageBytes: options.maxMessageBytes,
  });
  const signal = AbortSignal.any([stop, AbortSignal.timeout(checkTimeoutMs)]);
  try {
    await upstream.send(readMessage(handshake), () => Promise.resolve(), signal);
    if (person) return { as: null };
    if (credentials.kind !== 'client_credentials') return { as: 'api_key' };
    const token = 'token' in identity ? await identity.token?.() : undefined;
    return { as: 'client', ...(token && { issuer: token.issuer, token }) };
  } catch (error) {
    if (!person || !(error instanceof UpstreamError && error.code === 'unauthorized')) throw error;
    const { discover } = await import('#auth/discovery');
    const { url } = connection;
    const { issuer, published } = await discover(
      { url, credentials, publishedBefore: false },
      http,
    );
    return { as: 'person', issuer, published };
  } finally {
    await upstream.close(signal);
  }
}

/** Runs the doctor on this host; without `target`, about the host alone. */
export async function openDoctor(
  target: string | undefined,
  options: Options,
  network: NetworkSettings,
  host: AccountsHost & CredentialPorts & DoctorProgress,
): Promise<Examined> {
  const [{ runDoctor }, { default: manifest }] = await Promise.all([
    import('#status/doctor'),
    import('./package.json', { with: { type: 'json' } }),
  ]);
  return runDoctor(target, options, {
    ...host,
    version: manifest.version,
    network,
    readText: (path) => host.readText(path),
    store: async () => host.store(options),
    account: async (connection) => host.account(connection, options),
    endpoint: async (connection) => openEndpointCheck(connection, options, host),
    words,
  });
}

/** The handshake with the server of `connection`, for which no browser is opened. */
export async function openEndpointCheck(
  connection: Connection,
  options: Options,
  host: CredentialPorts,
): Promise<Check> {
  const { endpointCheck } = await import('#status/endpoint-check');
  return endpointCheck(connection, {
    ...quietPorts(connection, options, host),
    words: (error) => words(error, connection),
    noteMissingAccount: await missingAccountOf(connection, options, host),
  });
}

/** The tools that an assistant sees through `connection`, for which no browser is opened. */
export async function openToolList(
  connection: Connection,
  options: Options,
  host: CredentialPorts,
): Promise<string[]> {
  const { listTools } = await import('#status/endpoint-check');
  const signal = AbortSignal.any([host.stop, AbortSignal.timeout(checkTimeoutMs)]);
  const noteMissingAccount = await missingAccountOf(connection, options, host);
  return listTools(
    connection,
    { ...quietPorts(connection, options, host), noteMissingAccount },
    signal,
  );
}

/** Keeps what a check found out about the person's account at the MCP server, for `latchkey status`. */
async function missingAccountOf(
  connection: Connection,
  options: Options,
  host: CredentialPorts,
): Promise<(words: string | undefined) => Promise<void>> {
  if (!signsIn(connection)) return () => Promise.resolve();
  const { marks } = await openAccount(connection, options, host);
  return (said) => marks.noteMissingAccount(said);
}

function quietPorts(connection: Connection, options: Options, host: CredentialPorts) {
  const quiet = { ...options, signIn: 'never' as const };
  const silent = { ...host, openBrowser: () => Promise.resolve(false) };
  const log = jsonLinesLog('error', () => undefined);
  return {
    ...host,
    credential: async () => (await openCredential(connection, quiet, silent, log)).credential,
    maxMessageBytes: options.maxMessageBytes,
  };
}
