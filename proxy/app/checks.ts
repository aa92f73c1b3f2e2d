// Checks a connection without an assistant: when it is added, for the doctor, and to list its tools.
import { readMessage } from 'latchkey-mcp/raw-message';
import { signsIn } from '#auth/account';
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import type { Checked, ConnectionsHost } from '#connections/connections-host';
import { words } from '#errors';
import type { Host } from '#host';
import { jsonLinesLog } from '#log/log';
import type { Check } from '#status/checks';
import type { DoctorProgress, Examined } from '#status/doctor';
import { staticCredential } from '#transport/credential';
import type { NetworkSettings } from '#transport/network-settings';
import { streamableHttp } from '#transport/streamable-http';
import { UpstreamError } from '#transport/upstream';
import { programVersion } from '#version';
import { openCredential, secretsOf, type CredentialPorts } from './credential.ts';
import { openAccount } from './open-account.ts';

const checkTimeoutMs = 60_000;

const handshake = Buffer.from(
  '{"jsonrpc":"2.0","id":"latchkey","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"latchkey","version":"0"}}}',
);

/**
 * Performs the handshake of an assistant with the server, and closes the connection. If the server requires a person to
 * sign in, this only finds out where; no browser opens.
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
    ? { credential: staticCredential((await secretsOf(connection, options, ports)).headers ?? {}) }
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

/** Runs the doctor on this host; without `target`, only for the host itself. */
export async function openDoctor(
  target: string | undefined,
  options: Options,
  network: NetworkSettings,
  host: ConnectionsHost & CredentialPorts & DoctorProgress,
): Promise<Examined> {
  const [{ runDoctor }, version] = await Promise.all([import('#status/doctor'), programVersion()]);
  const { hasStoredSecrets } = await import('#connections/stored-secrets');
  return runDoctor(target, options, {
    ...host,
    version,
    network,
    readText: (path) => host.readText(path),
    store: async () => host.store(options),
    account: async (connection) => host.account(connection, options),
    hasSecrets: async (connection) => hasStoredSecrets(connection, async () => host.store(options)),
    endpoint: async (connection) => openEndpointCheck(connection, options, host),
    words,
  });
}

/** The handshake with the server of `connection`. No browser opens. */
export async function openEndpointCheck(
  connection: Connection,
  options: Options,
  host: CredentialPorts,
): Promise<Check> {
  const { endpointCheck } = await import('#status/endpoint-check');
  return endpointCheck(connection, {
    ...checkPorts(connection, options, host),
    words: (error) => words(error, connection),
    noteMissingAccount: await missingAccountOf(connection, options, host),
  });
}

/** The tools that an assistant sees through `connection`. No browser opens. */
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
    { ...checkPorts(connection, options, host), noteMissingAccount },
    signal,
  );
}

/** Returns a function that stores what a check found out about the person's account at the MCP server, for `latchkey status`. */
async function missingAccountOf(
  connection: Connection,
  options: Options,
  host: CredentialPorts,
): Promise<(words: string | undefined) => Promise<void>> {
  if (!signsIn(connection)) return () => Promise.resolve();
  const { marks } = await openAccount(connection, options, host);
  return (message) => marks.noteMissingAccount(message);
}

function checkPorts(connection: Connection, options: Options, host: CredentialPorts) {
  const neverSigningIn = { ...options, signIn: 'never' as const };
  const silent = { ...host, openBrowser: () => Promise.resolve(false) };
  const log = jsonLinesLog('error', () => undefined);
  return {
    ...host,
    credential: async () =>
      (await openCredential(connection, neverSigningIn, silent, log)).credential,
    maxMessageBytes: options.maxMessageBytes,
  };
}
