import { expect, test } from 'vitest';

import { insertAgent } from '#server/db/agents';
import { findClient } from '#server/db/clients';
import { findKey } from '#server/db/keys';
import { createClient, createKey } from '#server/admin/create-credentials';
import { hashSecret, isWellFormedSecret, secretHint } from '#server/secrets/secrets';
import { madeAt, makeServer } from '#support/made-records';
import { openDatabase } from '#support/open-database';
import { stillClock } from '#support/still-clock';

test('a new client is stored with the hash and the hint of its secret, never the secret', async () => {
  await using database = await openDatabase();
  const { db } = database;
  const clock = stillClock();
  await makeServer(database);
  const { id, secret } = await createClient(
    {
      name: 'Claude',
      serverId: 'srv_sales',
      scopes: ['mcp:tools:read'],
      redirectUris: [],
      jwks: undefined,
    },
    { db, clock },
  );
  const clients = await db.selectFrom('oauth_client').selectAll().execute();
  const secrets = await db.selectFrom('client_secret').selectAll().execute();

  expect(id).toMatch(/^client_[0-9A-Za-z]{24}$/);
  expect(isWellFormedSecret('secret_', secret)).toBe(true);
  expect(await findClient(db, id)).toMatchObject({
    id,
    name: 'Claude',
    serverId: 'srv_sales',
    scopes: ['mcp:tools:read'],
    redirectUris: [],
    jwks: undefined,
    createdAt: clock.now(),
  });
  expect(secrets).toEqual([
    expect.objectContaining({
      client_id: id,
      hash: hashSecret(secret),
      hint: secretHint(secret),
      created_at: clock.now(),
    }),
  ]);
  expect(JSON.stringify([clients, secrets])).not.toContain(secret);
});

test.each([
  ['a server gets an MCP key', { type: 'server', serverId: 'srv_sales' }, 'mcp_'],
  ['an agent gets an agent key', { type: 'agent', agentId: 'agent_1' }, 'pk_live_'],
] as const)('%s, stored as hash and hint', async (_, owner, prefix) => {
  await using database = await openDatabase();
  const { db } = database;
  const clock = stillClock();
  await makeServer(database);
  const agent = { id: 'agent_1', organizationId: 'org_acme', name: 'hq', createdAt: madeAt };
  await insertAgent(db, agent);
  const { id, key } = await createKey(
    { name: 'laptop', owner, scopes: ['mcp:tools:read'], expiresAt: 1_900_000_000 },
    { db, clock },
  );
  const rows = await db.selectFrom('api_key').selectAll().execute();

  expect(id).toMatch(/^key_[0-9A-Za-z]{16}$/);
  expect(isWellFormedSecret(prefix, key)).toBe(true);
  expect(await findKey(db, id)).toMatchObject({
    id,
    name: 'laptop',
    owner,
    scopes: ['mcp:tools:read'],
    expiresAt: 1_900_000_000,
    hint: secretHint(key),
    createdAt: clock.now(),
  });
  expect(rows).toEqual([expect.objectContaining({ id, hash: hashSecret(key) })]);
  expect(JSON.stringify(rows)).not.toContain(key);
});
