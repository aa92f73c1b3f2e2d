import { expect, test } from 'vitest';
import type { NewApiKey } from '#server/credentials/api-key';
import { createClient } from '#server/credentials/create-client';
import { createKey } from '#server/credentials/create-key';
import type { NewOAuthClient } from '#server/credentials/oauth-client';
import { hashSecret, isWellFormedSecret, secretHint } from '#server/credentials/secret-format';
import { stillClock } from '#support/still-clock';

test('a new client is kept with the hash and the hint of its secret, never the secret', async () => {
  const added: NewOAuthClient[] = [];
  const clients = { add: async (client: NewOAuthClient) => void added.push(client) };
  const clock = stillClock();
  const { id, secret } = await createClient(
    {
      name: 'Claude',
      serverId: 'srv_1',
      scopes: ['mcp:tools:read'],
      redirectUris: [],
      jwks: undefined,
    },
    { clients, clock },
  );

  expect(id).toMatch(/^client_[0-9A-Za-z]{24}$/);
  expect(isWellFormedSecret('secret_', secret)).toBe(true);
  expect(added).toEqual([
    {
      id,
      name: 'Claude',
      serverId: 'srv_1',
      scopes: ['mcp:tools:read'],
      redirectUris: [],
      jwks: undefined,
      secretHash: hashSecret(secret),
      secretHint: secretHint(secret),
      createdAt: clock.now(),
    },
  ]);
  expect(JSON.stringify(added)).not.toContain(secret);
});

test.each([
  ['a server gets an MCP key', { type: 'server', serverId: 'srv_1' }, 'mcp_'],
  ['an agent gets an agent key', { type: 'agent', agentId: 'agent_1' }, 'pk_live_'],
] as const)('%s, kept as hash and hint', async (_, owner, prefix) => {
  const added: NewApiKey[] = [];
  const keys = { add: async (key: NewApiKey) => void added.push(key) };
  const clock = stillClock();
  const { id, key } = await createKey(
    { name: 'laptop', owner, scopes: ['mcp:tools:read'], expiresAt: 1_900_000_000 },
    { keys, clock },
  );

  expect(id).toMatch(/^key_[0-9A-Za-z]{16}$/);
  expect(isWellFormedSecret(prefix, key)).toBe(true);
  expect(added).toEqual([
    {
      id,
      name: 'laptop',
      owner,
      scopes: ['mcp:tools:read'],
      expiresAt: 1_900_000_000,
      hash: hashSecret(key),
      hint: secretHint(key),
      createdAt: clock.now(),
    },
  ]);
  expect(JSON.stringify(added)).not.toContain(key);
});
