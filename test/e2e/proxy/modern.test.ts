import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { expect, test, vi } from 'vitest';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront, type OAuthFront } from '#support/oauth-front';
import { inherited } from '#support/programs';
import { launcher, proxyProcess } from '#support/proxy-process';
import { statelessMcp } from '#support/stateless-mcp';
import { patient } from '#support/patient';

const LATCHKEY_API_KEY = `mcp_${'k'.repeat(36)}`;
const envelope = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};

async function connected(server: OAuthFront) {
  const client = new Client(
    { name: 'assistant', version: '2' },
    { versionNegotiation: { mode: 'auto' } },
  );
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [launcher, server.url],
      env: { ...inherited, LATCHKEY_API_KEY },
    }),
  );
  return Object.assign(client, { [Symbol.asyncDispose]: async () => client.close() });
}

test('modern assistant, modern server: they speak the modern protocol', async () => {
  await using server = await oauthFront(statelessMcp().handle);
  await using client = await connected(server);

  const result = await client.callTool({ name: 'echo', arguments: { text: 'hé' } });

  expect(result.content).toEqual([{ type: 'text', text: 'hé' }]);
  expect(client.getServerVersion()).toMatchObject({ name: 'stateless modern' });
  expect(server.seen.at(-1)?.headers).toMatchObject({
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'echo',
  });
  expect(server.lines().every((line) => line.startsWith('POST'))).toBe(true);
});

test('modern assistant, legacy server: the assistant falls back to initialize', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  await using client = await connected(server);

  const result = await client.callTool({ name: 'echo', arguments: { text: 'hi' } });

  expect(result.content).toEqual([{ type: 'text', text: 'hi' }]);
});

test('legacy assistant, server without sessions: no GET stream is opened and no DELETE is sent', async () => {
  await using server = await oauthFront(statelessMcp().handle);
  const proxy = proxyProcess({ args: [server.url], env: { LATCHKEY_API_KEY } });
  const { result } = await proxy.handshake();
  await proxy.request('tools/list');
  proxy.hangUp();
  await proxy.ended;

  expect(result).toMatchObject({ serverInfo: { name: 'stateless legacy' } });
  expect(server.lines()).toEqual(Array.from({ length: 3 }, () => 'POST /mcp/acme/sales'));
});

test('modern assistant: cancelling a call closes its stream, and nothing else is sent', async () => {
  const mcp = statelessMcp();
  await using server = await oauthFront(mcp.handle);
  await using proxy = proxyProcess({ args: [server.url], env: { LATCHKEY_API_KEY } });
  const params = { name: 'wait', arguments: {}, _meta: envelope };
  proxy.send({ jsonrpc: '2.0', id: 7, method: 'tools/call', params });
  await vi.waitFor(() => expect(server.seen).toHaveLength(1), patient);

  const cancelled = { requestId: 7, _meta: envelope };
  proxy.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: cancelled });
  await vi.waitFor(() => expect(mcp.events).toEqual(['cancelled']), patient);

  expect(server.seen).toHaveLength(1);
  expect(proxy.unread()).toEqual([]);
});

test('modern headers: a name that no header can carry is sent in base64', async () => {
  await using server = await oauthFront(statelessMcp().handle);
  await using proxy = proxyProcess({ args: [server.url], env: { LATCHKEY_API_KEY } });

  const answer = await proxy.request('tools/call', { name: 'écho', _meta: envelope });

  expect(server.seen[0]?.headers['mcp-name']).toBe('=?base64?w6ljaG8=?=');
  expect(answer.error ?? answer.result).toBeDefined();
});

test('modern server: an error status with a JSON-RPC body is passed on unchanged', async () => {
  await using server = await oauthFront(statelessMcp().handle);
  await using proxy = proxyProcess({ args: [server.url], env: { LATCHKEY_API_KEY } });
  const version = { ...envelope, 'io.modelcontextprotocol/protocolVersion': '2099-01-01' };

  const unknownVersion = await proxy.request('tools/list', { _meta: version });
  const unknownMethod = await proxy.request('no/such', { _meta: envelope });

  expect(unknownVersion.error?.code).toBe(-32022);
  expect(unknownMethod.error?.code).toBe(-32601);
});
