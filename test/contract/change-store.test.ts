import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { sqliteChanges } from '#server/store/sqlite/change-store';
import { madeAt, makeServer, newClient, newKey } from '#support/made-records';
import { openDatabase } from '#support/open-database';

const now = madeAt + 60;
const agent = { id: 'agent_a', organizationId: 'org_acme', name: 'berlin', createdAt: madeAt };
const ofAgent = { type: 'agent', agentId: 'agent_a' } as const;

type Database = Awaited<ReturnType<typeof openDatabase>>;
type Change = (database: Database) => Promise<unknown>;

/** Pages of the server and of its organization list these. */
const atServer: [string, Change][] = [
  ['a key that is made', ({ keys }) => keys.add(newKey({ id: 'key_b', hash: 'hash of b' }))],
  ['a key that is revoked', ({ keys }) => keys.revoke('key_a', now)],
  [
    'the first use of a key',
    ({ usage }) => usage.record([{ type: 'key', id: 'key_a', usedAt: now }]),
  ],
  [
    'a secret beside another',
    ({ clientSecrets }) =>
      clientSecrets.add(
        { clientId: 'client_a', hint: 'secret_…bbbb', hash: 'hash of b', createdAt: now },
        { most: 2, othersExpireAt: undefined },
      ),
  ],
  [
    'a client that is made',
    ({ clients }) => clients.add(newClient({ id: 'client_b', secretHash: 'hash of b' })),
  ],
  ['a client that is revoked', ({ clients }) => clients.revoke('client_a', now)],
  ['another name of a client', (all) => all.clientDirectory.update('client_a', { name: 'Cursor' })],
  [
    'another host of a redirect URI',
    (all) =>
      all.clientDirectory.update('client_a', { redirectUris: ['http://127.0.0.2/callback'] }),
  ],
  ['fewer scopes', (all) => all.clientDirectory.update('client_a', { scopes: [] })],
  ['no redirect URI', (all) => all.clientDirectory.update('client_a', { redirectUris: [] })],
  ['another title', (all) => all.serverDirectory.update('srv_sales', { title: 'Sales' })],
  [
    'another upstream',
    (all) =>
      all.serverDirectory.update('srv_sales', {
        upstream: { kind: 'http', url: 'https://mcp.example.com/mcp', publicOnly: true },
      }),
  ],
  ['a hidden tool', (all) => all.serverDirectory.update('srv_sales', { hiddenTools: ['drop'] })],
  ['a server that is off', (all) => all.serverDirectory.update('srv_sales', { disabledAt: now })],
  ['a server that is gone', (all) => all.serverDirectory.remove('srv_sales')],
];

/** Pages of the organization list these. */
const atOrganization: [string, Change][] = [
  [
    'another server',
    ({ organizations }) =>
      organizations.addServer({
        id: 'srv_stock',
        organizationId: 'org_acme',
        name: 'stock',
        upstream: { kind: 'demo' },
        createdAt: madeAt,
      }),
  ],
  ['another agent', ({ agents }) => agents.add({ ...agent, id: 'agent_b', name: 'paris' })],
  ['an agent that is revoked', ({ agents }) => agents.revoke('agent_a', now)],
  [
    'another key of an agent',
    ({ keys }) => keys.add(newKey({ id: 'key_b', hash: 'hash of b', owner: ofAgent, scopes: [] })),
  ],
  ['a key of an agent that is revoked', ({ keys }) => keys.revoke('key_agent', now)],
];

// The bare connection is SQLite's own; the rest is what any adapter has to say.
describe('a ChangeStore in SQLite', () => {
  let database: Database;
  let changes: ReturnType<typeof sqliteChanges>;

  beforeEach(async () => {
    database = await openDatabase();
    await makeServer(database, 'sales');
    await makeServer(database, 'foreign', { organization: 'other' });
    await database.agents.add(agent);
    await database.keys.add(newKey());
    await database.keys.add(
      newKey({ id: 'key_agent', hash: 'hash of agent', owner: ofAgent, scopes: [] }),
    );
    await database.clients.add(newClient());
    changes = sqliteChanges(database.connection);
  });
  afterEach(() => database[Symbol.asyncDispose]());

  const told = async (change: Change) => {
    const states = () =>
      Promise.all([
        Promise.resolve(changes.written()),
        changes.stateOf('acme', undefined),
        changes.stateOf('acme', 'sales'),
        changes.stateOf('other', undefined),
      ]);
    const before = await states();
    await change(database);
    const after = await states();
    const [written, organization, server, other] = after.map((text, at) => text !== before[at]);
    return { written, organization, server, other };
  };

  test.each(atServer)('tells the server and its organization of %s', async (_, change) => {
    expect(await told(change)).toEqual({
      written: true,
      organization: true,
      server: true,
      other: false,
    });
  });

  test.each(atOrganization)('tells the organization of %s, and no server', async (_, change) => {
    expect(await told(change)).toEqual({
      written: true,
      organization: true,
      server: false,
      other: false,
    });
  });

  test('says the same as long as nothing is written', async () => {
    expect(await told(async () => changes.stateOf('acme', 'sales'))).toEqual({
      written: false,
      organization: false,
      server: false,
      other: false,
    });
  });
});
