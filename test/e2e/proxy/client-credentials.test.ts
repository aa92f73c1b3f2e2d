import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { legacyMcp } from '#support/legacy-mcp';
import { oauthFront, type OAuthFront } from '#support/oauth-front';
import { proxyProcess } from '#support/proxy-process';
import { testFolder } from '#support/test-folder';

function fileStore() {
  const directory = testFolder();
  const keyFile = join(directory, 'key');
  writeFileSync(keyFile, 'k'.repeat(44), { mode: 0o600 });
  return {
    LATCHKEY_SECRET_STORE: 'file',
    LATCHKEY_SECRET_STORE_KEY_FILE: keyFile,
    LATCHKEY_STATE_DIR: directory,
  };
}

const start = (server: OAuthFront, env: Record<string, string>) =>
  proxyProcess({
    args: [server.url],
    env: { LATCHKEY_OAUTH: JSON.stringify(server.client), ...env },
  });

test('client credentials: exchanged once after discovery, for the exact resource', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  await using proxy = start(server, { LATCHKEY_SECRET_STORE: 'memory' });

  const answer = await proxy.handshake();

  expect(answer.result).toMatchObject({ serverInfo: { name: 'legacy' } });
  expect(server.lines().slice(0, 5)).toEqual([
    'POST /mcp/acme/sales',
    'GET /.well-known/oauth-protected-resource/mcp/acme/sales',
    'GET /.well-known/oauth-authorization-server',
    'POST /api/oauth/token',
    'POST /mcp/acme/sales',
  ]);
  expect(Object.fromEntries(server.tokenRequests[0] ?? [])).toEqual({
    grant_type: 'client_credentials',
    scope: 'mcp:tools:read mcp:tools:execute',
    resource: server.url,
  });
});

test('client credentials: a second process starts from the stored token with one request', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  const env = fileStore();
  const first = start(server, env);
  await first.handshake();
  first.hangUp();
  await first.ended;
  server.seen.length = 0;
  await using second = start(server, env);

  const answer = await second.request('initialize', {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  });

  expect(answer.result).toMatchObject({ serverInfo: { name: 'legacy' } });
  expect(server.lines()).toEqual(['POST /mcp/acme/sales']);
  expect(server.tokenRequests).toHaveLength(1);
});

test('client credentials: a revoked token is replaced once for all waiting requests, which are repeated', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  await using proxy = start(server, { LATCHKEY_SECRET_STORE: 'memory' });
  await proxy.handshake();
  await proxy.request('ping');
  server.revokeAll();

  for (const id of ['a', 'b', 'c', 'd']) proxy.send({ jsonrpc: '2.0', id, method: 'tools/list' });
  const answers = [await proxy.next(), await proxy.next(), await proxy.next(), await proxy.next()];

  expect(answers.map(({ id }) => String(id)).sort()).toEqual(['a', 'b', 'c', 'd']);
  expect(answers.every(({ result }) => result?.['tools'])).toBe(true);
  expect(server.tokenRequests).toHaveLength(2);
});

test('client credentials: a server without metadata is asked at the default token endpoint', async () => {
  await using server = await oauthFront(legacyMcp().handle, { published: false });
  await using proxy = start(server, { LATCHKEY_SECRET_STORE: 'memory' });

  const answer = await proxy.handshake();

  expect(answer.result).toMatchObject({ serverInfo: { name: 'legacy' } });
  expect(server.tokenRequests[0]?.get('client_secret')).toBe(server.client.clientSecret);
});

test('client credentials: a wrong secret is an error naming the endpoint and the entry, not the secret', async () => {
  await using server = await oauthFront(legacyMcp().handle);
  const clientSecret = `secret_${'x'.repeat(36)}`;
  await using proxy = start(server, {
    LATCHKEY_SECRET_STORE: 'memory',
    LATCHKEY_OAUTH: JSON.stringify({ ...server.client, clientSecret }),
    LATCHKEY_LOG_LEVEL: 'debug',
  });

  const { error } = await proxy.handshake();

  expect(error).toMatchObject({ data: { status: 401, error: 'invalid_client' } });
  expect(error?.message).toContain('/api/oauth/token');
  expect(error?.message).toContain('clientSecret');
  expect(JSON.stringify(error) + proxy.stderr()).not.toContain(clientSecret);
});
