import type { Checked } from '#auth/accounts-host';
import type { Connection } from '#config/connection';
import type { Options } from '#config/options';
import type { Host } from '#host';
import { readMessage } from 'latchkey-mcp/raw-message';
import { jsonLinesLog } from '#log/log';
import { discover } from '#auth/discovery';
import { UpstreamError } from '#transport/upstream';
import { streamableHttp } from '#transport/streamable-http';
import { staticCredential } from '#transport/credential';
import { openCredential, type CredentialPorts } from './open-credential.ts';

export type CheckPorts = CredentialPorts & Pick<Host, 'writeLog'>;

const timeoutMs = 60_000;

const handshake = Buffer.from(
  '{"jsonrpc":"2.0","id":"latchkey","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"latchkey","version":"0"}}}',
);

/**
 * Shakes hands with the server, as an assistant does, and hangs up. Where a person has to sign in it
 * is enough to find out where; no browser opens.
 *
 * @throws what a connection fails with
 */
export async function checkConnection(
  connection: Connection,
  options: Options,
  ports: CheckPorts,
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
  const signal = AbortSignal.any([stop, AbortSignal.timeout(timeoutMs)]);
  try {
    await upstream.send(readMessage(handshake), () => Promise.resolve(), signal);
    if (person) return { as: 'nobody' };
    if (credentials.kind !== 'client_credentials') return { as: 'api_key' };
    const token = 'token' in identity ? await identity.token?.() : undefined;
    return { as: 'client', ...(token && { issuer: token.issuer, token }) };
  } catch (error) {
    if (!person || !(error instanceof UpstreamError && error.code === 'unauthorized')) throw error;
    const { issuer, resource } = credentials;
    const { issuer: found, published } = await discover(
      {
        url: connection.url,
        ...(issuer !== undefined && { issuer }),
        ...(resource !== undefined && { resource }),
        publishedBefore: false,
      },
      http,
    );
    return { as: 'person', issuer: found, published };
  } finally {
    await upstream.close(signal);
  }
}
