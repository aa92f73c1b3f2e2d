import { expect, test } from 'vitest';
import { lockAdmissions } from '#server/db/admissions';
import { active } from '#server/gateway/admission';
import { insertCollection, removeMember } from '#server/db/collections';
import { insertClient, revokeClient } from '#server/db/clients';
import { revokeAccessToken } from '#server/db/revoked-tokens';
import { insertAgent } from '#server/db/agents';
import { insertKey, revokeKey } from '#server/db/keys';
import { updateServer } from '#server/db/servers';
import { transaction } from '#server/db/transaction';
import { madeAt, makeServer, newClient, newKey } from '#support/made-records';
import { ofNoPerson } from '#support/some-admission';
import { sqliteAdmissions } from '#server/db/sqlite/admission-store';
import { openStores } from '#server/app/stores';
import { temporaryFolder } from '#support/temporary-folder';
import { onEachDatabase, type Connection } from '#support/databases';

const now = madeAt + 60;
const place = { organization: 'acme', server: 'sales' };
const byKey = ({ admissions }: Pick<Connection, 'admissions'>, but = {}) =>
  admissions.byKey({ ...place, keyHash: 'hash of a', now, ...but });
const byClient = ({ admissions }: Connection, but = {}) =>
  admissions.byClient({ ...place, clientId: 'client_a', tokenId: 'jti-1', ...but });

const sales = {
  id: 'srv_sales',
  organization: 'acme',
  name: 'sales',
  createdAt: madeAt,
  target: {
    id: 'target_sales',
    organization: 'acme',
    name: 'sales',
    upstream: { kind: 'demo' },
    hiddenTools: [],
    changedTools: 'flag',
    newTools: 'offer',
    offered: { withheld: {}, open: {}, readOnly: new Set() },
  },
};

/** `acme/sales` and `acme/support`, with the key and the client of the first. */
async function prepared(database: Pick<Connection, 'db'>) {
  await makeServer(database, 'sales');
  await makeServer(database, 'support');
  await insertKey(database.db, newKey({ expiresAt: now + 10 }));
  await insertClient(database.db, newClient());
}

await onEachDatabase('admission', ({ open }) => {
  test('admits a key to its server with its scopes', async () => {
    await using database = await open();
    await prepared(database);

    expect(await byKey(database)).toEqual({
      endpoint: sales,
      toolCaller: ofNoPerson,
      keyId: 'key_a',
      scopes: ['mcp:tools:read'],
    });
  });

  test('admits a client to its server with its current scopes', async () => {
    await using database = await open();
    await prepared(database);

    expect(await byClient(database)).toEqual({
      endpoint: sales,
      toolCaller: ofNoPerson,
      scopes: ['mcp:tools:read', 'mcp:tools:execute'],
    });
  });

  test.each([
    ['another server', { server: 'support' }],
    ['a server that is not there', { server: 'nothing' }],
    ['an organization that is not there', { organization: 'nothing' }],
    ['a name in another case', { server: 'Sales' }],
  ])(
    'denies access to %s, even right after an admission to the credential’s own server',
    async (_, elsewhere) => {
      await using database = await open();
      await prepared(database);
      const own = [await byKey(database), await byClient(database)];

      expect(own).not.toContain(undefined);
      expect(await byKey(database, elsewhere)).toBeUndefined();
      expect(await byClient(database, elsewhere)).toBeUndefined();
    },
  );

  test('denies an unknown key and an unknown client', async () => {
    await using database = await open();
    await prepared(database);

    expect(await byKey(database, { keyHash: 'hash of b' })).toBeUndefined();
    expect(await byClient(database, { clientId: 'client_b' })).toBeUndefined();
  });

  test('admits a key until the second in which it expires', async () => {
    await using database = await open();
    await prepared(database);

    expect(await byKey(database, { now: now + 9 })).toBeDefined();
    expect(await byKey(database, { now: now + 10 })).toBeUndefined();
  });

  test('admits a key that never expires', async () => {
    await using database = await open();
    await prepared(database);
    await insertKey(database.db, newKey({ id: 'key_b', hash: 'hash of b' }));

    expect(await byKey(database, { keyHash: 'hash of b', now: 9_000_000_000 })).toBeDefined();
  });

  test('denies an agent key access to every server, even to those of its agent', async () => {
    await using database = await open();
    await prepared(database);
    const agentId = 'agent_1';
    await insertAgent(database.db, {
      id: agentId,
      organizationId: 'org_acme',
      name: 'hq',
      createdAt: 1,
    });
    await makeServer(database, 'remote', { upstream: { kind: 'agent', agentId } });
    await insertKey(
      database.db,
      newKey({ id: 'key_b', hash: 'b', owner: { type: 'agent', agentId } }),
    );

    expect(await byKey(database, { keyHash: 'b', server: 'remote' })).toBeUndefined();
  });

  test('denies a key or client that was revoked through another connection', async () => {
    await using database = await open();
    await prepared(database);
    const other = await database.connectAgain();

    expect([await byKey(other), await byClient(other)]).not.toContain(undefined);

    await revokeKey(database.db, 'key_a', now);
    await revokeClient(database.db, 'client_a', now);

    expect([await byKey(other), await byClient(other)]).toEqual([undefined, undefined]);
  });

  test('denies a revoked token, and still admits other tokens of its client', async () => {
    await using database = await open();
    await prepared(database);
    const other = await database.connectAgain();
    await revokeAccessToken(database.db, { id: 'jti-1', expiresAt: now + 10 }, now);

    expect(await byClient(other, { tokenId: 'jti-2' })).toBeDefined();
    expect(await byClient(other)).toBeUndefined();
    expect(await byClient(other, { tokenId: 'jti-2' })).toBeDefined();
  });

  test('admits a client with any of its tokens until the client is revoked', async () => {
    await using database = await open();
    await prepared(database);
    const other = await database.connectAgain();
    await revokeAccessToken(database.db, { id: 'jti-1', expiresAt: now + 10 }, now);

    expect(await byClient(other, { tokenId: undefined })).toBeDefined();

    await revokeClient(database.db, 'client_a', now);

    expect(await byClient(other, { tokenId: undefined })).toBeUndefined();
  });

  const ofSales: unknown = expect.objectContaining({ id: 'srv_sales' });
  test.each([
    ['organization', undefined, undefined],
    [
      'endpoint',
      { suspension: 'server', keyId: 'key_a', endpoint: ofSales },
      { suspension: 'server', endpoint: ofSales },
    ],
  ] as const)(
    'admits nothing while the %s is disabled, and admits again once it is enabled',
    async (table, key, client) => {
      await using database = await open();
      await prepared(database);
      const other = await database.connectAgain();
      await database.db.updateTable(table).set({ disabled_at: now }).execute();

      expect([await byKey(other), await byClient(other)]).toEqual([key, client]);

      await database.db.updateTable(table).set({ disabled_at: null }).execute();

      expect([await byKey(other), await byClient(other)]).toEqual([
        expect.objectContaining({ endpoint: expect.anything() }),
        expect.objectContaining({ endpoint: expect.anything() }),
      ]);
    },
  );

  test('admits a person with the scopes of their role, while they are a member', async () => {
    await using database = await open();
    await prepared(database);
    const { db, admissions } = await database.connectAgain();
    const person = { id: 'user_dana', email: 'dana@example.com', email_key: 'dana@example.com' };
    await db
      .insertInto('person')
      .values({ ...person, created_at: now })
      .execute();
    const at = { organization: 'acme', server: 'sales', userId: 'user_dana' };

    expect(await admissions.byPerson(at)).toBeUndefined();

    const membership = { person_id: 'user_dana', organization_id: 'org_acme', role: 'member' };
    await db.insertInto('membership').values(membership).execute();
    const admitted = active(await admissions.byPerson(at));

    expect(admitted).toMatchObject({ endpoint: { id: 'srv_sales' } });
    expect(admitted?.scopes).toContain('mcp:tools:execute');
    expect(admitted?.scopes).not.toContain('mcp:server:manage');
    expect(await admissions.byPerson({ ...at, organization: 'other' })).toBeUndefined();
    expect(await admissions.byPerson({ ...at, server: 'other' })).toBeUndefined();

    await db.updateTable('endpoint').set({ disabled_at: now }).execute();

    expect(await admissions.byPerson(at)).toMatchObject({ suspension: 'server' });

    await db.updateTable('endpoint').set({ disabled_at: null }).execute();
    await db.deleteFrom('membership').execute();

    expect(await admissions.byPerson(at)).toBeUndefined();
  });

  test('195: admits callers of a collection to its members, and a person only to those that they may use', async () => {
    await using database = await open();
    await prepared(database);
    const { db, admissions } = await database.connectAgain();
    const dana = { id: 'user_dana', email: 'dana@example.com', email_key: 'dana@example.com' };
    await db
      .insertInto('person')
      .values({ ...dana, created_at: now })
      .execute();
    const membership = { person_id: 'user_dana', organization_id: 'org_acme', role: 'member' };
    await db.insertInto('membership').values(membership).execute();
    const ids = { id: 'srv_both', targetId: 'target_both', organizationId: 'org_acme' };
    const chosen = { type: 'chosen', tools: ['find'], prompts: [], resources: [] } as const;
    const both = { ...ids, name: 'both', createdAt: madeAt };
    await insertCollection(db, both, [{ id: 'srv_sales', selection: chosen }]);
    const ofNone = { ...place, collectionId: 'srv_both', userId: undefined };
    const ofDana = { ...ofNone, userId: 'user_dana' };

    expect(await admissions.byMember(ofNone)).toMatchObject({
      endpoint: { id: 'srv_sales' },
      toolCaller: { groups: undefined, selections: [chosen] },
    });
    expect(await admissions.byMember(ofDana)).toMatchObject({ endpoint: { id: 'srv_sales' } });
    expect(await admissions.byMember({ ...ofDana, userId: 'user_eve' })).toBeUndefined();
    expect(await admissions.byMember({ ...ofNone, server: 'support' })).toBeUndefined();
    expect(await admissions.byMember({ ...ofNone, collectionId: 'srv_support' })).toBeUndefined();

    await db
      .updateTable('endpoint')
      .set({ access: 'groups' })
      .where('id', '=', 'srv_sales')
      .execute();

    expect(await admissions.byMember(ofDana)).toBeUndefined();
    expect(await admissions.byMember(ofNone)).toMatchObject({ endpoint: { id: 'srv_sales' } });

    await removeMember(db, 'srv_both', 'srv_sales');

    expect(await admissions.byMember(ofNone)).toBeUndefined();
  });

  test('returns the tools that the server currently hides', async () => {
    await using database = await open();
    await prepared(database);
    const other = await database.connectAgain();
    await updateServer(other.db, 'srv_sales', { hiddenTools: ['drop'] });

    expect(await byKey(database)).toMatchObject({
      endpoint: { target: { hiddenTools: ['drop'] } },
    });
    expect(await byClient(database)).toMatchObject({
      endpoint: { target: { hiddenTools: ['drop'] } },
    });
  });

  test('107: all admissions to a server share one record of it, whatever its size, until it changes', async () => {
    await using database = await open();
    await prepared(database);
    const { db } = database;
    await updateServer(db, sales.id, { hiddenTools: ['echo'] });
    const servers = async () => {
      const found = [
        await byKey(database),
        await byClient(database),
        await byClient(database, { tokenId: 'jti-2' }),
        await transaction(db, async (tx) => byKey({ admissions: await lockAdmissions(tx) })),
      ];
      return new Set(found.map((one) => active(one)?.endpoint));
    };
    const before = await servers();
    await updateServer(db, sales.id, { hiddenTools: ['add'] });
    const after = await servers();

    expect([...before].map((one) => one?.target.hiddenTools)).toEqual([['echo']]);
    expect([...after].map((one) => one?.target.hiddenTools)).toEqual([['add']]);
  });

  test('admissions of two databases with a server of the same id do not share its record', async () => {
    await using one = await open();
    await using another = await open();
    await prepared(one);
    await prepared(another);
    await updateServer(another.db, sales.id, { hiddenTools: ['echo'] });
    const hidden = async (database: Connection) =>
      active(await byKey(database))?.endpoint.target.hiddenTools;

    expect([await hidden(one), await hidden(another), await hidden(one)]).toEqual([
      [],
      ['echo'],
      [],
    ]);
  });

  test('grants nothing for an unknown scope', async () => {
    await using database = await open();
    await prepared(database);
    const scopes = '["mcp:everything","mcp:tools:read"]';
    await database.db.updateTable('api_key').set({ scopes }).execute();

    expect(await byKey(database)).toMatchObject({ scopes: ['mcp:tools:read'] });
  });

  test('admits the same callers in a transaction, as it sees them', async () => {
    await using database = await open();
    await prepared(database);
    const found = await transaction(database.db, async (tx) => {
      const within = { ...database, admissions: await lockAdmissions(tx) };
      const before = [await byKey(within), await byClient(within)];
      await revokeKey(tx, 'key_a', now);
      return [...before, await byKey(within), await byClient(within, { clientId: 'client_b' })];
    });

    expect(found).toEqual([
      { endpoint: sales, toolCaller: ofNoPerson, keyId: 'key_a', scopes: ['mcp:tools:read'] },
      { endpoint: sales, toolCaller: ofNoPerson, scopes: ['mcp:tools:read', 'mcp:tools:execute'] },
      undefined,
      undefined,
    ]);
  });
});

test('admission in SQLite: the change token differs after a write through any connection', async () => {
  await using folder = await temporaryFolder();
  const [one, other] = [await openStores(folder.path), await openStores(folder.path)];
  const admissions = sqliteAdmissions(other.connection);
  const before = admissions.changeToken();

  expect(admissions.changeToken()).toBe(before);

  await prepared(one);

  expect(admissions.changeToken()).not.toBe(before);

  for (const stores of [one, other]) await stores.close();
});
