import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const info = { name: 'a client', version: '1' };

/** A connected client of the SDK's first generation, which makes a handshake and keeps a session. */
export async function legacyClient(endpoint: string, key: string) {
  const client = new LegacyClient(info);
  const requestInit = { headers: { 'x-api-key': key } };
  await client.connect(new LegacyTransport(new URL(endpoint), { requestInit }));
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() });
}

/** A connected client of the SDK's second generation that speaks 2026-07-28 and nothing else. */
export async function modernClient(endpoint: string, key: string) {
  const client = new ModernClient(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
  const requestInit = { headers: { 'x-api-key': key } };
  await client.connect(new ModernTransport(new URL(endpoint), { requestInit }));
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() });
}
