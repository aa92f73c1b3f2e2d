import { describe, expect, test } from 'vitest';
import { madeAt, makeServer, newClient, newKey } from '#support/made-records';
import { storeAdapters, type Connection } from '#support/store-adapters';

const now = madeAt + 60;
const place = { organization: 'acme', server: 'sales' };
const byKey = ({ admissions }: Connection, but = {}) =>
  admissions.byKey({ ...place, keyHash: 'hash of a', now, ...but });
const byClient = ({ admissions }: Connection, but = {}) =>
  admissions.byClient({ ...place, clientId: 'client_a', tokenId: 'jti-1', ...but });

const sales = {
  id: 'srv_sales',
  organization: 'acme',
  name: 'sales',
  upstream: { kind: 'demo' },
  hiddenTools: [],
  changedTools: 'flag',
  withheldTools: [],
  createdAt: madeAt,
};

/** `acme/sales` and `acme/support`, with the key and the client of the first. */
async function prepared(database: Connection) {
  await makeServer(database, 'sales');
  await makeServer(database, 'support');
  await database.keys.add(newKey({ expiresAt: now + 10 }));
  await database.clients.add(newClient());
}

describe.each(storeAdapters)('an AdmissionStore in $name', ({ open }) => {
  test('lets a key in to its server with its scopes', async () => {
    await using database = await open();
    await prepared(database);

    expect(await byKey(database)).toEqual({
      server: sales,
      keyId: 'key_a',
      scopes: ['mcp:tools:read'],
    });
  });

  test('lets a client in to its server with the scopes it may have now', async () => {
    await using database = await open();
    await prepared(database);

    expect(await byClient(database)).toEqual({
      server: sales,
      scopes: ['mcp:tools:read', 'mcp:tools:execute'],
    });
  });

  test.each([
    ['another server', { server: 'support' }],
    ['a server that is not there', { server: 'nothing' }],
    ['an organization that is not there', { organization: 'nothing' }],
    ['a name in another case', { server: 'Sales' }],
  ])(
    'lets nobody in to %s, even if their own server let them in just before',
    async (_, elsewhere) => {
      await using database = await open();
      await prepared(database);
      const own = [await byKey(database), await byClient(database)];

      expect(own).not.toContain(undefined);
      expect(await byKey(database, elsewhere)).toBeUndefined();
      expect(await byClient(database, elsewhere)).toBeUndefined();
    },
  );

  test('lets in neither a key nor a client that it does not know', async () => {
    await using database = await open();
    await prepared(database);

    expect(await byKey(database, { keyHash: 'hash of b' })).toBeUndefined();
    expect(await byClient(database, { clientId: 'client_b' })).toBeUndefined();
  });

  test('lets a key in until the second that it expires', async () => {
    await using database = await open();
    await prepared(database);

    expect(await byKey(database, { now: now + 9 })).toBeDefined();
    expect(await byKey(database, { now: now + 10 })).toBeUndefined();
  });

  test('lets in a key that never expires', async () => {
    await using database = await open();
    await prepared(database);
    await database.keys.add(newKey({ id: 'key_b', hash: 'hash of b' }));

    expect(await byKey(database, { keyHash: 'hash of b', now: 9_000_000_000 })).toBeDefined();
  });

  test('lets the key of an agent in to no server, not even one of that agent', async () => {
    await using database = await open();
    await prepared(database);
    const agentId = 'agent_1';
    await database.agents.add({
      id: agentId,
      organizationId: 'org_acme',
      name: 'hq',
      createdAt: 1,
    });
    await makeServer(database, 'remote', { upstream: { kind: 'agent', agentId } });
    await database.keys.add(newKey({ id: 'key_b', hash: 'b', owner: { type: 'agent', agentId } }));

    expect(await byKey(database, { keyHash: 'b', server: 'remote' })).toBeUndefined();
  });

  test('lets nobody in whose key or client was revoked through another connection', async () => {
    await using database = await open();
    await prepared(database);
    const other = await database.connectAgain();

    expect([await byKey(other), await byClient(other)]).not.toContain(undefined);

    await database.keys.revoke('key_a', now);
    await database.clients.revoke('client_a', now);

    expect([await byKey(other), await byClient(other)]).toEqual([undefined, undefined]);
  });

  test('lets no revoked token in, and other tokens of its client as before', async () => {
    await using database = await open();
    await prepared(database);
    const other = await database.connectAgain();
    await database.revokedTokens.revoke({ id: 'jti-1', expiresAt: now + 10 }, now);

    expect(await byClient(other, { tokenId: 'jti-2' })).toBeDefined();
    expect(await byClient(other)).toBeUndefined();
    expect(await byClient(other, { tokenId: 'jti-2' })).toBeDefined();
  });

  test('lets a client in whichever token it brings, until the client is revoked', async () => {
    await using database = await open();
    await prepared(database);
    const other = await database.connectAgain();
    await database.revokedTokens.revoke({ id: 'jti-1', expiresAt: now + 10 }, now);

    expect(await byClient(other, { tokenId: undefined })).toBeDefined();

    await database.clients.revoke('client_a', now);

    expect(await byClient(other, { tokenId: undefined })).toBeUndefined();
  });

  test('tells by another text that something was written, through whatever connection', async () => {
    await using database = await open();
    const { admissions } = await database.connectAgain();
    const before = admissions.written();

    expect(admissions.written()).toBe(before);

    await prepared(database);

    expect(admissions.written()).not.toBe(before);
  });

  test.each(['organization', 'mcp_server'] as const)(
    'lets nobody in while the %s is disabled, and again once it is enabled',
    async (table) => {
      await using database = await open();
      await prepared(database);
      const other = await database.connectAgain();
      await database.db.updateTable(table).set({ disabled_at: now }).execute();

      expect([await byKey(other), await byClient(other)]).toEqual([undefined, undefined]);

      await database.db.updateTable(table).set({ disabled_at: null }).execute();

      expect([await byKey(other), await byClient(other)]).not.toContain(undefined);
    },
  );

  test('lets a member in for what their role covers, for as long as they are one', async () => {
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
    const admitted = await admissions.byPerson(at);

    expect(admitted).toMatchObject({ server: { id: 'srv_sales' } });
    expect(admitted?.scopes).toContain('mcp:tools:execute');
    expect(admitted?.scopes).not.toContain('mcp:server:manage');
    expect(await admissions.byPerson({ ...at, organization: 'other' })).toBeUndefined();
    expect(await admissions.byPerson({ ...at, server: 'other' })).toBeUndefined();

    await db.updateTable('mcp_server').set({ disabled_at: now }).execute();

    expect(await admissions.byPerson(at)).toBeUndefined();

    await db.updateTable('mcp_server').set({ disabled_at: null }).execute();
    await db.deleteFrom('membership').execute();

    expect(await admissions.byPerson(at)).toBeUndefined();
  });

  test('says which tools the server hides now', async () => {
    await using database = await open();
    await prepared(database);
    const other = await database.connectAgain();
    await other.organizations.hideTools('srv_sales', ['drop']);

    expect(await byKey(database)).toMatchObject({ server: { hiddenTools: ['drop'] } });
    expect(await byClient(database)).toMatchObject({ server: { hiddenTools: ['drop'] } });
  });

  test('grants nothing for a scope that this program does not know', async () => {
    await using database = await open();
    await prepared(database);
    const scopes = '["mcp:everything","mcp:tools:read"]';
    await database.db.updateTable('api_key').set({ scopes }).execute();

    expect(await byKey(database)).toMatchObject({ scopes: ['mcp:tools:read'] });
  });
});
