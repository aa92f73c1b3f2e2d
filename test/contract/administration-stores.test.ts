import { describe, expect, test } from 'vitest';

import { madeAt, makeOrganization, makeServer, newClient, newKey } from '#support/made-records';
import { storeAdapters, type Connection } from '#support/store-adapters';

const now = madeAt + 60;
const acme = { organizationId: 'org_acme', descending: false, limit: 50, offset: 0 } as const;

describe.each(storeAdapters)('a ServerDirectory in $name', ({ open }) => {
  test('gives the servers of an organization in pages, sorted, by a part of their name or title', async () => {
    await using database = await open();
    for (const name of ['sales', 'support', 'web']) await makeServer(database, name);
    await makeServer(database, 'foreign', { organization: 'other' });
    await database.serverDirectory.update('srv_web', { title: '50% Off_Site' });
    const page = async (but = {}) => {
      const query = { ...acme, sort: 'name', ...but } as const;
      const { items, total } = await database.serverDirectory.page(query);
      return [total, ...items.map(({ name }) => name)];
    };

    expect(await page()).toEqual([3, 'sales', 'support', 'web']);
    expect(await page({ limit: 2, offset: 1, descending: true })).toEqual([3, 'support', 'sales']);
    expect(await page({ text: 'S' })).toEqual([3, 'sales', 'support', 'web']);
    expect(await page({ text: 'SU' })).toEqual([1, 'support']);
    expect(await page({ text: '50% off_' })).toEqual([1, 'web']);
    expect(await page({ text: '_' })).toEqual([1, 'web']);
    expect(await page({ status: 'disabled' })).toEqual([0]);
  });

  test('changes what is given and nothing else, of that server, at once', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await makeServer(database, 'support');
    const other = await database.connectAgain();
    const upstream = {
      kind: 'http',
      url: 'https://mcp.example.com/mcp',
      publicOnly: true,
    } as const;
    await database.serverDirectory.update('srv_sales', { title: 'Sales', hiddenTools: ['drop'] });
    await database.serverDirectory.update('srv_sales', { upstream, disabledAt: now });

    expect(await other.organizations.serverByName('acme', 'sales')).toEqual({
      id: 'srv_sales',
      organization: 'acme',
      name: 'sales',
      title: 'Sales',
      upstream,
      hiddenTools: ['drop'],
      changedTools: 'flag',
      withheldTools: [],
      revision: 2,
      createdAt: madeAt,
      disabledAt: now,
    });
    expect(await other.organizations.serverByName('acme', 'support')).not.toHaveProperty('title');
    expect(await database.serverDirectory.update('nobody', { title: 'x' })).toBe(false);
  });

  test('keeps limits until they are lifted, and gives them to who lets callers in', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await database.keys.add(newKey({ hash: 'a hash' }));
    const admitted = async () => {
      const at = { organization: 'acme', server: 'sales', keyHash: 'a hash', now };
      return (await database.admissions.byKey(at))?.server;
    };
    const limits = { callsPerMinute: 60, answerBytes: 4096 };
    const unlimited = await admitted();
    await database.serverDirectory.update('srv_sales', { limits });
    const limited = await admitted();
    await database.serverDirectory.update('srv_sales', { limits: null });

    expect(unlimited).not.toHaveProperty('limits');
    expect(limited).toMatchObject({ limits });
    expect(await admitted()).not.toHaveProperty('limits');
  });

  test('of many changes to one revision makes one, whoever else connects', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    const other = await database.connectAgain();
    const change = (title: string, at: typeof database | typeof other) =>
      at.serverDirectory.update('srv_sales', { title }, 0);
    const made = await Promise.all([
      ...['a', 'b', 'c'].map((title) => change(title, database)),
      ...['d', 'e', 'f'].map((title) => change(title, other)),
    ]);
    const then = await other.organizations.serverByName('acme', 'sales');

    expect(made.filter(Boolean)).toHaveLength(1);
    expect(then?.revision).toBe(1);
    expect(await database.serverDirectory.update('srv_sales', { title: 'g' }, 1)).toBe(true);
    expect(await database.serverDirectory.update('srv_sales', { title: 'h' }, 1)).toBe(false);
  });

  test('removes a server with its clients and keys, and lets nobody in with them', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await database.keys.add(newKey());
    await database.keys.add(newKey({ id: 'key_b', hash: 'b', expiresAt: now }));
    await database.clients.add(newClient());
    const key = { organization: 'acme', server: 'sales', keyHash: 'hash of a', now };
    const dependents = await database.serverDirectory.dependents('srv_sales', now);

    expect(dependents).toEqual({ activeKeys: 1, activeClients: 1, activeGrants: 0 });
    expect(await database.admissions.byKey(key)).toBeDefined();
    expect(await database.serverDirectory.remove('srv_sales')).toBe(true);
    expect(await database.serverDirectory.remove('srv_sales')).toBe(false);
    expect(await database.admissions.byKey(key)).toBeUndefined();
    expect(await database.keyDirectory.byId('key_a')).toBeUndefined();
    expect(await database.clients.byId('client_a')).toBeUndefined();
  });
});

describe.each(storeAdapters)('a KeyDirectory in $name', ({ open }) => {
  const agent = { id: 'agent_1', organizationId: 'org_acme', name: 'hq', createdAt: madeAt };
  async function prepared(database: Connection) {
    await makeServer(database, 'sales');
    await makeServer(database, 'foreign', { organization: 'other' });
    await database.agents.add(agent);
    const add = (id: string, but = {}) =>
      database.keys.add(newKey({ id, hash: id, name: `Key ${id}`, ...but }));
    await add('key_a', { createdAt: 3 });
    await add('key_b', { createdAt: 2, expiresAt: now });
    await add('key_c', { createdAt: 1 });
    await add('key_d', { owner: { type: 'server', serverId: 'srv_foreign' } });
    await add('key_e', { owner: { type: 'agent', agentId: 'agent_1' } });
    await database.keys.revoke('key_c', now);
  }

  test('gives keys by server, agent, status and name, with whose they are', async () => {
    await using database = await open();
    await prepared(database);
    const page = async (but = {}) => {
      const query = { ...acme, sort: 'createdAt', now, ...but } as const;
      const { items, total } = await database.keyDirectory.page(query);
      return [total, ...items.map(({ id }) => id)];
    };

    expect(await page()).toEqual([3, 'key_c', 'key_b', 'key_a']);
    expect(await page({ descending: true, limit: 1, offset: 1 })).toEqual([3, 'key_b']);
    expect(await page({ status: 'active' })).toEqual([1, 'key_a']);
    expect(await page({ status: 'expired' })).toEqual([1, 'key_b']);
    expect(await page({ status: 'revoked' })).toEqual([1, 'key_c']);
    expect(await page({ serverId: 'srv_foreign' })).toEqual([0]);
    expect(await page({ agentId: 'agent_1' })).toEqual([1, 'key_e']);
    expect(await page({ text: 'KEY_A' })).toEqual([1, 'key_a']);
    expect(await database.keyDirectory.byId('key_d')).toMatchObject({
      organization: 'other',
      server: 'foreign',
      agent: undefined,
    });
    expect(await database.keyDirectory.byId('key_e')).toMatchObject({
      organization: 'acme',
      server: undefined,
      agent: 'hq',
    });
  });
});

describe.each(storeAdapters)('a ClientDirectory in $name', ({ open }) => {
  test('changes a client that stands, and gives clients in pages', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await database.clients.add(newClient());
    await database.clients.add(newClient({ id: 'client_b', name: 'Zed', secretHash: 'b' }));
    await database.clients.revoke('client_b', now);
    const change = { name: 'Cursor', scopes: ['mcp:tools:read'], redirectUris: [] } as const;

    expect(await database.clientDirectory.update('client_a', change)).toBe(true);
    expect(await database.clientDirectory.update('client_b', change)).toBe(false);
    const page = await database.clientDirectory.page({ ...acme, sort: 'name', status: 'active' });
    expect(page).toMatchObject({
      total: 1,
      items: [{ ...change, id: 'client_a', serverPath: 'acme/sales', secretHint: 'secret_…aaaa' }],
    });
    const revoked = await database.clientDirectory.page({
      ...acme,
      sort: 'name',
      status: 'revoked',
    });
    expect(revoked.items.map(({ id }) => id)).toEqual(['client_b']);
  });
});

describe.each(storeAdapters)('a ClientSecretStore in $name', ({ open }) => {
  const second = { clientId: 'client_a', hint: 'secret_…bbbb', createdAt: now, hash: 'hash of b' };

  test('lets the old secret and the new one count, the old one until it ends', async () => {
    await using database = await open();
    await makeServer(database);
    await database.clients.add(newClient());
    const limits = { most: 2, othersExpireAt: now + 10 };
    const id = await database.clientSecrets.add(second, limits);
    const counts = (hash: string, at: number) => database.clients.hasSecret('client_a', hash, at);

    expect(id).toMatch(/^cs_/);
    expect(await counts('hash of a', now + 9)).toBe(true);
    expect(await counts('hash of a', now + 10)).toBe(false);
    expect(await counts('hash of b', now + 10)).toBe(true);
    expect(await database.clientSecrets.list('client_a')).toMatchObject([
      { id, hint: 'secret_…bbbb', expiresAt: undefined, lastUsedAt: now + 10 },
      { hint: 'secret_…aaaa', expiresAt: now + 10, lastUsedAt: now + 9 },
    ]);
  });

  test('adds no more than the most, and none to a client that is revoked', async () => {
    await using database = await open();
    await makeServer(database);
    await database.clients.add(newClient());
    const limits = { most: 2, othersExpireAt: undefined };
    const added = await Promise.all(
      ['1', '2', '3'].map((hash) => database.clientSecrets.add({ ...second, hash }, limits)),
    );

    expect(added.filter((id) => id !== undefined)).toHaveLength(1);

    await database.clients.revoke('client_a', now);

    const more = database.clientSecrets.add({ ...second, hash: 'x' }, { ...limits, most: 9 });
    expect(await more).toBeUndefined();
  });

  test('revokes one secret of its own client, once, and leaves the others', async () => {
    await using database = await open();
    await makeServer(database);
    await database.clients.add(newClient());
    await database.clients.add(newClient({ id: 'client_b', secretHash: 'other' }));
    const limits = { most: 5, othersExpireAt: undefined };
    const id = (await database.clientSecrets.add(second, limits)) ?? '';

    expect(await database.clientSecrets.revoke('client_b', id, now)).toBe(false);
    expect(await database.clientSecrets.revoke('client_a', id, now)).toBe(true);
    expect(await database.clientSecrets.revoke('client_a', id, now)).toBe(false);
    expect(await database.clients.hasSecret('client_a', 'hash of b', now + 1)).toBe(false);
    expect(await database.clients.hasSecret('client_a', 'hash of a', now + 1)).toBe(true);
  });
});

describe.each(storeAdapters)('a PersonalTokenStore in $name', ({ open }) => {
  const token = {
    id: 'token_1',
    userId: 'user_1',
    name: 'script',
    hint: 'pat_…aaaa',
    hash: 'hash',
    factors: 2 as const,
    createdAt: madeAt,
    expiresAt: now + 100,
  };
  async function prepared(database: Connection) {
    await makeOrganization(database);
    const user = { id: 'user_1', email: 'dana@example.com', createdAt: madeAt };
    await database.users.add(user, { organizationId: 'org_acme', role: 'admin' });
    await database.personalTokens.add(token, 1);
  }

  test('finds a token by its hash until it expires, and notes its use within a minute', async () => {
    await using database = await open();
    await prepared(database);

    expect(await database.personalTokens.use('hash', now)).toMatchObject({
      lastUsedAt: now,
      factors: 2,
    });
    expect(await database.personalTokens.use('hash', now + 59)).toMatchObject({ lastUsedAt: now });
    expect(await database.personalTokens.use('hash', now + 60)).toMatchObject({
      lastUsedAt: now + 60,
    });
    expect(await database.personalTokens.use('hash', now + 100)).toBeUndefined();
    expect(await database.personalTokens.use('other', now)).toBeUndefined();
  });

  test('keeps at most so many that count', async () => {
    await using database = await open();
    await prepared(database);
    const another = { ...token, id: 'token_2', hash: 'h2', createdAt: now };

    expect(await database.personalTokens.add(another, 1)).toBe(false);
    expect(await database.personalTokens.add({ ...another, createdAt: now + 100 }, 1)).toBe(true);
  });

  test('is over once revoked, by whoever it is of, through another connection, or with its person', async () => {
    await using database = await open();
    await prepared(database);
    const other = await database.connectAgain();
    await database.personalTokens.add({ ...token, id: 'token_2', hash: 'h2' }, 5);

    expect(await database.personalTokens.revoke('user_2', 'token_1', now)).toBe(false);
    expect(await database.personalTokens.revoke('user_1', 'token_1', now)).toBe(true);
    expect(await database.personalTokens.revoke('user_1', 'token_1', now)).toBe(false);
    expect(await other.personalTokens.use('hash', now)).toBeUndefined();
    expect(await other.personalTokens.use('h2', now)).toBeDefined();

    await database.users.remove('user_1');

    expect(await other.personalTokens.use('h2', now)).toBeUndefined();
    expect(await other.personalTokens.list('user_1')).toEqual([]);
  });
});
