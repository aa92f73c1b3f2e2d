import { expect, test } from 'vitest';

import { active } from '#server/gateway/admission';
import {
  checkClientSecret,
  insertClientSecret,
  listClientSecrets,
  revokeClientSecret,
} from '#server/db/client-secrets';
import {
  findClient,
  insertClient,
  listClients,
  revokeClient,
  updateClient,
} from '#server/db/clients';
import { insertAgent } from '#server/db/agents';
import { findKey, insertKey, listKeys, revokeKey } from '#server/db/keys';
import { deleteServer, findServer, listServers, updateServer } from '#server/db/servers';
import { countServerDependents } from '#server/db/server-dependents';
import { madeAt, makeOrganization, makeServer, newClient, newKey } from '#support/made-records';
import { insertUser, deleteUser } from '#server/db/people';
import {
  insertPersonalToken,
  listPersonalTokens,
  revokePersonalToken,
  usePersonalToken,
} from '#server/db/personal-tokens';
import { onEachDatabase, type Connection } from '#support/databases';

const now = madeAt + 60;
const acme = { organizationId: 'org_acme', descending: false, limit: 50, offset: 0 } as const;

await onEachDatabase('servers', ({ open }) => {
  test('are listed by page, sorted, and filtered by status and by part of a name or title', async () => {
    await using database = await open();
    for (const name of ['sales', 'support', 'web']) await makeServer(database, name);
    await makeServer(database, 'foreign', { organization: 'other' });
    await updateServer(database.db, 'srv_web', { title: '50% Off_Site' });
    const page = async (but = {}) => {
      const query = { ...acme, sort: 'name', ...but } as const;
      const { items, total } = await listServers(database.db, query);
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

  test('an update changes only the given fields of that server, and every connection sees it', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await makeServer(database, 'support');
    const other = await database.connectAgain();
    const upstream = {
      kind: 'http',
      url: 'https://mcp.example.com/mcp',
      publicOnly: true,
    } as const;
    await updateServer(database.db, 'srv_sales', { title: 'Sales', hiddenTools: ['drop'] });
    await updateServer(database.db, 'srv_sales', { upstream, disabledAt: now });

    expect(await findServer(other.db, 'acme', 'sales')).toEqual({
      id: 'srv_sales',
      organization: 'acme',
      name: 'sales',
      title: 'Sales',
      revision: 2,
      createdAt: madeAt,
      disabledAt: now,
      target: {
        id: 'target_sales',
        organization: 'acme',
        name: 'sales',
        upstream,
        hiddenTools: ['drop'],
        changedTools: 'flag',
        newTools: 'offer',
        offered: { withheld: {}, open: {}, readOnly: new Set() },
      },
    });
    expect(await findServer(other.db, 'acme', 'support')).not.toHaveProperty('title');
    expect(await updateServer(database.db, 'nobody', { title: 'x' })).toBe(false);
  });

  test('limits stay until they are lifted, and admission returns them', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await insertKey(database.db, newKey({ hash: 'a hash' }));
    const admitted = async () => {
      const at = { organization: 'acme', server: 'sales', keyHash: 'a hash', now };
      return active(await database.admissions.byKey(at))?.endpoint;
    };
    const limits = { callsPerMinute: 60, answerBytes: 4096 };
    const unlimited = await admitted();
    await updateServer(database.db, 'srv_sales', { limits });
    const limited = await admitted();
    await updateServer(database.db, 'srv_sales', { limits: null });

    expect(unlimited).not.toHaveProperty('limits');
    expect(limited).toMatchObject({ limits });
    expect(await admitted()).not.toHaveProperty('limits');
  });

  test('of several concurrent updates to one revision, exactly one succeeds', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    const other = await database.connectAgain();
    const change = (title: string, at: typeof database | typeof other) =>
      updateServer(at.db, 'srv_sales', { title }, 0);
    const made = await Promise.all([
      ...['a', 'b', 'c'].map((title) => change(title, database)),
      ...['d', 'e', 'f'].map((title) => change(title, other)),
    ]);
    const then = await findServer(other.db, 'acme', 'sales');

    expect(made.filter(Boolean)).toHaveLength(1);
    expect(then?.revision).toBe(1);
    expect(await updateServer(database.db, 'srv_sales', { title: 'g' }, 1)).toBe(true);
    expect(await updateServer(database.db, 'srv_sales', { title: 'h' }, 1)).toBe(false);
  });

  test('a change that is based on an earlier revision leaves endpoint and target as they are', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await updateServer(database.db, 'srv_sales', { hiddenTools: ['drop'] }, 0);
    const before = await findServer(database.db, 'acme', 'sales');
    const upstream = { kind: 'http', url: 'https://mcp.example.com/mcp' } as const;
    const stale = await Promise.all([
      updateServer(database.db, 'srv_sales', { title: 'Sales', upstream }, 0),
      updateServer(database.db, 'srv_sales', { hiddenTools: [] }, 0),
      updateServer(database.db, 'srv_sales', { changedTools: 'withhold' }, 0),
    ]);

    expect(before).toMatchObject({ revision: 1, target: { hiddenTools: ['drop'] } });
    expect(stale).toEqual([false, false, false]);
    expect(await findServer(database.db, 'acme', 'sales')).toEqual(before);
  });

  test('removing a server removes its clients and keys, which admit no further call', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await insertKey(database.db, newKey());
    await insertKey(database.db, newKey({ id: 'key_b', hash: 'b', expiresAt: now }));
    await insertClient(database.db, newClient());
    const key = { organization: 'acme', server: 'sales', keyHash: 'hash of a', now };
    const dependents = await countServerDependents(database.db, 'srv_sales', now);

    expect(dependents).toEqual({ activeKeys: 1, activeClients: 1, activeGrants: 0 });
    expect(await database.admissions.byKey(key)).toBeDefined();
    expect(await deleteServer(database.db, 'srv_sales')).toBe(true);
    expect(await deleteServer(database.db, 'srv_sales')).toBe(false);
    expect(await database.admissions.byKey(key)).toBeUndefined();
    expect(await findKey(database.db, 'key_a')).toBeUndefined();
    expect(await findClient(database.db, 'client_a')).toBeUndefined();
    expect(await database.db.selectFrom('target').select('id').execute()).toEqual([]);
  });
});

await onEachDatabase('keys', ({ open }) => {
  const agent = { id: 'agent_1', organizationId: 'org_acme', name: 'hq', createdAt: madeAt };
  async function prepared(database: Connection) {
    await makeServer(database, 'sales');
    await makeServer(database, 'foreign', { organization: 'other' });
    await insertAgent(database.db, agent);
    const add = (id: string, but = {}) =>
      insertKey(database.db, newKey({ id, hash: id, name: `Key ${id}`, ...but }));
    await add('key_a', { createdAt: 3 });
    await add('key_b', { createdAt: 2, expiresAt: now });
    await add('key_c', { createdAt: 1 });
    await add('key_d', { owner: { type: 'server', serverId: 'srv_foreign' } });
    await add('key_e', { owner: { type: 'agent', agentId: 'agent_1' } });
    await revokeKey(database.db, 'key_c', now);
  }

  test('are listed by server, agent, status and name, with their owner', async () => {
    await using database = await open();
    await prepared(database);
    const page = async (but = {}) => {
      const query = { ...acme, sort: 'createdAt', now, ...but } as const;
      const { items, total } = await listKeys(database.db, query);
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
    expect(await findKey(database.db, 'key_d')).toMatchObject({
      organization: 'other',
      server: 'foreign',
      agent: undefined,
    });
    expect(await findKey(database.db, 'key_e')).toMatchObject({
      organization: 'acme',
      server: undefined,
      agent: 'hq',
    });
  });
});

await onEachDatabase('OAuth clients', ({ open }) => {
  test('an active client can be changed, and clients are listed by page', async () => {
    await using database = await open();
    await makeServer(database, 'sales');
    await insertClient(database.db, newClient());
    await insertClient(database.db, newClient({ id: 'client_b', name: 'Zed', secretHash: 'b' }));
    await revokeClient(database.db, 'client_b', now);
    const change = { name: 'Cursor', scopes: ['mcp:tools:read'], redirectUris: [] } as const;

    expect(await updateClient(database.db, 'client_a', change)).toBe(true);
    expect(await updateClient(database.db, 'client_b', change)).toBe(false);
    const page = await listClients(database.db, { ...acme, sort: 'name', status: 'active' });
    expect(page).toMatchObject({
      total: 1,
      items: [{ ...change, id: 'client_a', serverPath: 'acme/sales', secretHint: 'secret_…aaaa' }],
    });
    const revoked = await listClients(database.db, {
      ...acme,
      sort: 'name',
      status: 'revoked',
    });
    expect(revoked.items.map(({ id }) => id)).toEqual(['client_b']);
  });
});

await onEachDatabase('client secrets', ({ open }) => {
  const second = { clientId: 'client_a', hint: 'secret_…bbbb', createdAt: now, hash: 'hash of b' };

  test('the old and the new secret are both valid until the old one expires', async () => {
    await using database = await open();
    await makeServer(database);
    await insertClient(database.db, newClient());
    const limits = { most: 2, othersExpireAt: now + 10 };
    const id = await insertClientSecret(database.db, second, limits);
    const counts = (hash: string, at: number) =>
      checkClientSecret(database.db, 'client_a', hash, at);

    expect(id).toMatch(/^cs_/);
    expect(await counts('hash of a', now + 9)).toBe(true);
    expect(await counts('hash of a', now + 10)).toBe(false);
    expect(await counts('hash of b', now + 10)).toBe(true);
    expect(await listClientSecrets(database.db, 'client_a')).toMatchObject([
      { id, hint: 'secret_…bbbb', expiresAt: undefined, lastUsedAt: now + 10 },
      { hint: 'secret_…aaaa', expiresAt: now + 10, lastUsedAt: now + 9 },
    ]);
  });

  test('no more than the maximum are added, and none to a revoked client', async () => {
    await using database = await open();
    await makeServer(database);
    await insertClient(database.db, newClient());
    const limits = { most: 2, othersExpireAt: undefined };
    const added = await Promise.all(
      ['1', '2', '3'].map((hash) => insertClientSecret(database.db, { ...second, hash }, limits)),
    );

    expect(added.filter((id) => id !== undefined)).toHaveLength(1);

    await revokeClient(database.db, 'client_a', now);

    const more = insertClientSecret(database.db, { ...second, hash: 'x' }, { ...limits, most: 9 });
    expect(await more).toBeUndefined();
  });

  test('revoking one of a client’s secrets takes effect once and leaves the others valid', async () => {
    await using database = await open();
    await makeServer(database);
    await insertClient(database.db, newClient());
    await insertClient(database.db, newClient({ id: 'client_b', secretHash: 'other' }));
    const limits = { most: 5, othersExpireAt: undefined };
    const id = (await insertClientSecret(database.db, second, limits)) ?? '';

    expect(await revokeClientSecret(database.db, 'client_b', id, now)).toBe(false);
    expect(await revokeClientSecret(database.db, 'client_a', id, now)).toBe(true);
    expect(await revokeClientSecret(database.db, 'client_a', id, now)).toBe(false);
    expect(await checkClientSecret(database.db, 'client_a', 'hash of b', now + 1)).toBe(false);
    expect(await checkClientSecret(database.db, 'client_a', 'hash of a', now + 1)).toBe(true);
  });

  test('a revoked secret stays revoked when the clock goes back', async () => {
    await using database = await open();
    await makeServer(database);
    await insertClient(database.db, newClient());
    const limits = { most: 5, othersExpireAt: undefined };
    const id = (await insertClientSecret(database.db, second, limits)) ?? '';

    await revokeClientSecret(database.db, 'client_a', id, now);

    expect(await checkClientSecret(database.db, 'client_a', 'hash of b', now - 60)).toBe(false);
  });
});

await onEachDatabase('personal access tokens', ({ open }) => {
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
    await insertUser(database.db, user, { organizationId: 'org_acme', role: 'admin' });
    await insertPersonalToken(database.db, token, 1);
  }

  test('a token is found by its hash until it expires, and its last use is recorded at most once a minute', async () => {
    await using database = await open();
    await prepared(database);

    expect(await usePersonalToken(database.db, 'hash', now)).toMatchObject({
      lastUsedAt: now,
      factors: 2,
    });
    expect(await usePersonalToken(database.db, 'hash', now + 59)).toMatchObject({
      lastUsedAt: now,
    });
    expect(await usePersonalToken(database.db, 'hash', now + 60)).toMatchObject({
      lastUsedAt: now + 60,
    });
    expect(await usePersonalToken(database.db, 'hash', now + 100)).toBeUndefined();
    expect(await usePersonalToken(database.db, 'other', now)).toBeUndefined();
  });

  test('a person has at most the allowed number of valid tokens', async () => {
    await using database = await open();
    await prepared(database);
    const another = { ...token, id: 'token_2', hash: 'h2', createdAt: now };

    expect(await insertPersonalToken(database.db, another, 1)).toBe(false);
    expect(await insertPersonalToken(database.db, { ...another, createdAt: now + 100 }, 1)).toBe(
      true,
    );
  });

  test('a token ends when its own person revokes it or is removed, for every connection', async () => {
    await using database = await open();
    await prepared(database);
    const other = await database.connectAgain();
    await insertPersonalToken(database.db, { ...token, id: 'token_2', hash: 'h2' }, 5);

    expect(await revokePersonalToken(database.db, 'user_2', 'token_1', now)).toBe(false);
    expect(await revokePersonalToken(database.db, 'user_1', 'token_1', now)).toBe(true);
    expect(await revokePersonalToken(database.db, 'user_1', 'token_1', now)).toBe(false);
    expect(await usePersonalToken(other.db, 'hash', now)).toBeUndefined();
    expect(await usePersonalToken(other.db, 'h2', now)).toBeDefined();

    await deleteUser(database.db, 'user_1');

    expect(await usePersonalToken(other.db, 'h2', now)).toBeUndefined();
    expect(await listPersonalTokens(other.db, 'user_1')).toEqual([]);
  });
});
