import { afterEach, beforeEach, expect, test } from 'vitest';

import { insertClientSecret } from '#server/db/client-secrets';
import { insertClient, revokeClient, updateClient } from '#server/db/clients';
import { insertAgent, revokeAgent } from '#server/db/agents';
import { insertKey, revokeKey } from '#server/db/keys';
import { updateLastUses } from '#server/db/last-uses';
import { deleteServer, insertServer, updateServer } from '#server/db/servers';
import { type ChangeStore } from '#server/db/changes';
import { queryCache } from '#server/web/dashboard/live';
import { madeAt, makeServer, newClient, newKey } from '#support/made-records';
import { type Connection, onEachDatabase, type TestDatabase } from '#support/databases';
import { openDatabase } from '#support/open-database';
import { patient } from '#support/patient';

const now = madeAt + 60;
const agent = { id: 'agent_a', organizationId: 'org_acme', name: 'berlin', createdAt: madeAt };
const ofAgent = { type: 'agent', agentId: 'agent_a' } as const;

type Change = (database: Pick<Connection, 'db'>) => Promise<unknown>;

/** Changes that show on pages of the server and of its organization. */
const atServer: [string, Change][] = [
  ['a key that is made', ({ db }) => insertKey(db, newKey({ id: 'key_b', hash: 'hash of b' }))],
  ['a key that is revoked', ({ db }) => revokeKey(db, 'key_a', now)],
  [
    'the first use of a key',
    ({ db }) => updateLastUses(db, [{ type: 'key', id: 'key_a', usedAt: now }]),
  ],
  [
    'a secret beside another',
    ({ db }) =>
      insertClientSecret(
        db,
        { clientId: 'client_a', hint: 'secret_…bbbb', hash: 'hash of b', createdAt: now },
        { most: 2, othersExpireAt: undefined },
      ),
  ],
  [
    'a client that is made',
    ({ db }) => insertClient(db, newClient({ id: 'client_b', secretHash: 'hash of b' })),
  ],
  ['a client that is revoked', ({ db }) => revokeClient(db, 'client_a', now)],
  ['another name of a client', (all) => updateClient(all.db, 'client_a', { name: 'Cursor' })],
  [
    'another host of a redirect URI',
    (all) => updateClient(all.db, 'client_a', { redirectUris: ['http://127.0.0.2/callback'] }),
  ],
  ['fewer scopes', (all) => updateClient(all.db, 'client_a', { scopes: [] })],
  ['no redirect URI', (all) => updateClient(all.db, 'client_a', { redirectUris: [] })],
  ['another title', (all) => updateServer(all.db, 'srv_sales', { title: 'Sales' })],
  [
    'another upstream',
    (all) =>
      updateServer(all.db, 'srv_sales', {
        upstream: { kind: 'http', url: 'https://mcp.example.com/mcp', publicOnly: true },
      }),
  ],
  ['a hidden tool', (all) => updateServer(all.db, 'srv_sales', { hiddenTools: ['drop'] })],
  ['a server that is off', (all) => updateServer(all.db, 'srv_sales', { disabledAt: now })],
  ['a server that is gone', (all) => deleteServer(all.db, 'srv_sales')],
];

/** Changes that show on pages of the organization. */
const atOrganization: [string, Change][] = [
  [
    'another server',
    ({ db }) =>
      insertServer(db, {
        id: 'srv_stock',
        targetId: 'target_stock',
        organizationId: 'org_acme',
        name: 'stock',
        upstream: { kind: 'demo' },
        createdAt: madeAt,
      }),
  ],
  ['another agent', ({ db }) => insertAgent(db, { ...agent, id: 'agent_b', name: 'paris' })],
  ['an agent that is revoked', ({ db }) => revokeAgent(db, 'agent_a', now)],
  [
    'another key of an agent',
    ({ db }) =>
      insertKey(db, newKey({ id: 'key_b', hash: 'hash of b', owner: ofAgent, scopes: [] })),
  ],
  ['a key of an agent that is revoked', ({ db }) => revokeKey(db, 'key_agent', now)],
];

await onEachDatabase('change tokens', ({ open }) => {
  let database: TestDatabase;
  let changes: ChangeStore;

  beforeEach(async () => {
    database = await open();
    await makeServer(database, 'sales');
    await makeServer(database, 'foreign', { organization: 'other' });
    await insertAgent(database.db, agent);
    await insertKey(database.db, newKey());
    await insertKey(
      database.db,
      newKey({ id: 'key_agent', hash: 'hash of agent', owner: ofAgent, scopes: [] }),
    );
    await insertClient(database.db, newClient());
    changes = database.changes;
  });
  afterEach(() => database[Symbol.asyncDispose]());

  const told = async (change: Change) => {
    const states = () =>
      Promise.all([
        changes.stateOf('acme', undefined),
        changes.stateOf('acme', 'sales'),
        changes.stateOf('other', undefined),
      ]);
    const before = await states();
    await change(database);
    const after = await states();
    const [organization, server, other] = after.map((text, at) => text !== before[at]);
    return { organization, server, other };
  };

  test.each(atServer)(
    'the tokens of the server and its organization change with %s',
    async (_, change) => {
      expect(await told(change)).toEqual({
        organization: true,
        server: true,
        other: false,
      });
    },
  );

  test.each(atOrganization)(
    'only the token of the organization changes with %s',
    async (_, change) => {
      expect(await told(change)).toEqual({
        organization: true,
        server: false,
        other: false,
      });
    },
  );

  test('no token changes while nothing is written', async () => {
    expect(await told(async () => changes.stateOf('acme', 'sales'))).toEqual({
      organization: false,
      server: false,
      other: false,
    });
  });

  test('a cached result is not returned once another process has written', async () => {
    const other = await database.connectAgain();
    const cached = queryCache(changes);
    const keys = () =>
      cached(['keys'], () =>
        database.db.selectFrom('api_key').select(['id', 'revoked_at']).orderBy('id').execute(),
      );
    const before = await keys();

    await revokeKey(other.db, 'key_a', now);

    expect(before).toContainEqual({ id: 'key_a', revoked_at: null });
    expect(await keys()).toContainEqual({ id: 'key_a', revoked_at: now });
  });

  test('the change token differs soon after a write through another connection', async () => {
    const other = await database.connectAgain();
    const before = changes.changeToken();

    await revokeKey(other.db, 'key_a', now);

    await expect.poll(() => changes.changeToken(), patient).not.toBe(before);
  });
});

test('change token in SQLite: it differs at once after a write, and only then', async () => {
  await using database = await openDatabase();
  await makeServer(database, 'sales');
  const before = database.changes.changeToken();

  expect(database.changes.changeToken()).toBe(before);

  await insertKey(database.db, newKey());

  expect(database.changes.changeToken()).not.toBe(before);
});
