import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront } from '#support/oauth-front';
import { proxyProcess } from '#support/proxy-process';
import { testFolder } from '#support/test-folder';

const apiKey = `mcp_${'k'.repeat(36)}`;

test('API key: it reaches the server without any request besides the messages', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  await using proxy = proxyProcess({ args: [server.url], env: { LATCHKEY_API_KEY: apiKey } });

  const answer = await proxy.request('initialize', {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  });

  expect(answer.result).toMatchObject({ serverInfo: { name: 'legacy' } });
  expect(server.lines()).toEqual(['POST /mcp/acme/sales']);
});

test('API key: one in a configuration file is found by the name of its entry', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  const config = join(testFolder(), 'mcp.json');
  writeFileSync(config, JSON.stringify({ mcpServers: { acme: { url: server.url, apiKey } } }));
  await using proxy = proxyProcess({ args: ['acme', '--config', config] });
  await proxy.handshake();

  const answer = await proxy.request('tools/call', { name: 'echo', arguments: { text: 'hi' } });

  expect(answer.result).toMatchObject({ content: [{ type: 'text', text: 'hi' }] });
});

test('API key: a rejected one is an error that says where to look', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  await using proxy = proxyProcess({ args: [server.url], env: { LATCHKEY_API_KEY: 'mcp_wrong' } });

  const { error } = await proxy.handshake();

  expect(error).toMatchObject({ code: -32603, data: { status: 401 } });
  expect(error?.message).toContain('command line');
  expect(error?.message).not.toContain('mcp_wrong');
});
