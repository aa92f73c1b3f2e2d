import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { expect, test, vi } from 'vitest';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront, type OAuthFront } from '#support/oauth-front';
import { inherited } from '#support/programs';
import { launcher, proxyProcess } from '#support/proxy-process';
import { patient } from '#support/patient';

const LATCHKEY_API_KEY = `mcp_${'k'.repeat(36)}`;

async function connected(server: OAuthFront) {
  const client = new Client(
    { name: 'assistant', version: '1' },
    { capabilities: { elicitation: {}, sampling: {} } },
  );
  client.setRequestHandler(ElicitRequestSchema, () => ({
    action: 'accept' as const,
    content: { name: 'Ada' },
  }));
  client.setRequestHandler(CreateMessageRequestSchema, () => ({
    model: 'm',
    role: 'assistant' as const,
    content: { type: 'text' as const, text: 'a thought' },
  }));
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [launcher, server.url],
    env: { ...inherited, LATCHKEY_API_KEY, LATCHKEY_LOG_LEVEL: 'error' },
  });
  await client.connect(transport);
  return Object.assign(client, { [Symbol.asyncDispose]: async () => client.close() });
}

test('legacy session: opened, used with its headers, and deleted when the assistant leaves', async () => {
  const mcp = legacyMcp();
  await using server = await oauthFront(mcp.handle);
  const client = await connected(server);
  await client.callTool({ name: 'echo', arguments: { text: 'hi' } });
  await client.close();

  const last = server.seen.at(-1);

  expect(server.lines().filter((line) => line.startsWith('GET'))).toHaveLength(1);
  expect(last?.method).toBe('DELETE');
  expect(last?.headers['mcp-session-id']).toEqual(expect.any(String));
  expect(last?.headers['mcp-protocol-version']).toBe('2025-11-25');
  expect(mcp.events).toEqual(['closed']);
});

test('legacy session: progress reaches the assistant while the call runs', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  await using proxy = proxyProcess({ args: [server.url], env: { LATCHKEY_API_KEY } });
  await proxy.handshake();
  const _meta = { progressToken: 'p' };

  const params = { name: 'count', arguments: { to: 3 }, _meta };
  proxy.send({ jsonrpc: '2.0', id: 'c', method: 'tools/call', params });
  const lines = [await proxy.next(), await proxy.next(), await proxy.next(), await proxy.next()];

  expect(lines.map(({ params: { progress } = {}, id }) => progress ?? id)).toEqual([1, 2, 3, 'c']);
});

test('legacy session: a request of the server is answered by the assistant', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  await using client = await connected(server);

  const asked = await client.callTool({ name: 'ask', arguments: {} });
  const thought = await client.callTool({ name: 'think', arguments: {} });

  expect(asked.content).toEqual([{ type: 'text', text: 'accept Ada' }]);
  expect(JSON.stringify(thought.content)).toContain('a thought');
});

test('legacy session: notifications on the GET stream reach the assistant', async () => {
  const mcp = legacyMcp();
  await using server = await oauthFront(mcp.handle);
  await using client = await connected(server);
  const changed = vi.fn();
  client.setNotificationHandler(ToolListChangedNotificationSchema, changed);
  await vi.waitFor(() => expect(server.lines()).toContain('GET /mcp/acme/sales'), patient);

  await vi.waitFor(() => {
    mcp.changed();
    expect(changed).toHaveBeenCalled();
  }, patient);
});

test('legacy session: a cancelled call is cancelled at the server and gets no answer', async () => {
  const mcp = legacyMcp();
  await using server = await oauthFront(mcp.handle);
  await using proxy = proxyProcess({ args: [server.url], env: { LATCHKEY_API_KEY } });
  await proxy.handshake();
  const posts = () => server.lines().filter((line) => line.startsWith('POST')).length;
  proxy.send({ jsonrpc: '2.0', id: 'w', method: 'tools/call', params: { name: 'wait' } });
  await vi.waitFor(() => expect(posts()).toBe(3), patient);

  proxy.send({
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId: 'w', reason: 'enough' },
  });
  await vi.waitFor(() => expect(mcp.events).toEqual(['cancelled']), patient);

  expect((await proxy.request('ping')).result).toEqual({});
  expect(proxy.unread()).toEqual([]);
});

test('legacy session: a forgotten one is replaced without the assistant noticing', async () => {
  const mcp = legacyMcp();
  await using server = await oauthFront(mcp.handle);
  await using client = await connected(server);
  await client.listTools();
  mcp.sessions.clear();

  const results = await Promise.all([
    client.callTool({ name: 'echo', arguments: { text: 'a' } }),
    client.callTool({ name: 'echo', arguments: { text: 'b' } }),
  ]);

  expect(results.map(({ content }) => content)).toEqual([
    [{ type: 'text', text: 'a' }],
    [{ type: 'text', text: 'b' }],
  ]);
  expect(mcp.sessions.size).toBe(1);
});

test('legacy session: messages sent all at once are processed in the order of the handshake', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  await using proxy = proxyProcess({ args: [server.url], env: { LATCHKEY_API_KEY } });
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 't', version: '1' },
  };

  proxy.send(
    [
      { jsonrpc: '2.0', id: 1, method: 'initialize', params },
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', id: 2, method: 'tools/list' },
    ]
      .map((message) => JSON.stringify(message))
      .join('\n'),
  );
  proxy.hangUp();

  expect([(await proxy.next()).id, (await proxy.next()).id]).toEqual([1, 2]);
  expect(await proxy.ended).toBe(0);
});
