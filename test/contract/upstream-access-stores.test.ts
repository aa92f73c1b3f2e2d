import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { UpstreamAccess } from '#server/upstream-access/upstream-access';
import { sqliteAdmissions } from '#server/store/sqlite/admission-store';
import type { OpenStores } from '#server/stores';
import { openDatabase } from '#support/open-database';

const now = 1_800_000_000;
const url = 'https://mcp.example/mcp';

describe.each([['SQLite', openDatabase]])('accesses to upstreams in %s', (_, open) => {
  let stores: OpenStores & AsyncDisposable;
  let org: string;
  let serverId: string;
  beforeAll(async () => {
    stores = await open();
  });
  afterAll(() => stores[Symbol.asyncDispose]());
  beforeEach(async () => {
    org = `org_${randomUUID()}`;
    serverId = `srv_${randomUUID()}`;
    await stores.organizations.add({ id: org, name: org.replace('_', '-'), createdAt: now });
    const upstream = { kind: 'http', url } as const;
    const server = { id: serverId, organizationId: org, name: 'web', upstream, createdAt: now };
    await stores.organizations.addServer(server);
  });

  const accessWith = (but: Partial<UpstreamAccess> = {}): UpstreamAccess => ({
    id: `upa_${randomUUID()}`,
    serverId,
    kind: 'authorization_code',
    url,
    metadata: { issuer: 'https://as.example', token_endpoint: 'https://as.example/token' },
    resource: url,
    clientId: 'latchkey',
    sealedClientSecret: 'sealed',
    scopes: ['read'],
    vouchedHosts: [],
    createdAt: now,
    ...but,
  });
  const accessInForce = async () => {
    const access = accessWith();
    expect(await stores.upstreamAccesses.set(access)).toBe(true);
    return access;
  };
  const member = async () => {
    const userId = `user_${randomUUID()}`;
    const user = { id: userId, email: `${userId}@example.com`, createdAt: now };
    await stores.users.add(user, { organizationId: org, role: 'member' });
    return userId;
  };
  const connected = async (access: UpstreamAccess, userId: string, sealedTokens = 'tokens') => {
    const id = `upc_${randomUUID()}`;
    const of = { id, accessId: access.id, serverId, userId, organizationId: org };
    await stores.upstreamConnections.put({ ...of, sealedTokens, createdAt: now });
    return { id, version: 0 };
  };
  const upstream = async () =>
    (await stores.organizations.serverByName(org.replace('_', '-'), 'web'))?.upstream;
  const due = async (at = now) =>
    (await stores.endedConnections.due(at, 100)).filter((one) => one.serverId === serverId);

  test('a server names the access that was set last, and none once it is cleared', async () => {
    const first = await accessInForce();
    const changed = { ...first, clientId: 'other', scopes: [], sealedClientSecret: undefined };
    await stores.upstreamAccesses.set(changed);
    const kept = await stores.upstreamAccesses.byId(first.id);
    const named = await upstream();
    await stores.upstreamAccesses.clear(serverId);

    expect(kept).toEqual(changed);
    expect(named).toEqual({ kind: 'http', url, accessId: first.id });
    expect(await upstream()).toEqual({ kind: 'http', url });
  });

  test('an access that was kept when hosts had no ports opens the port alone that it was named by', async () => {
    const access = accessWith({ vouchedHosts: ['mcp.example'] });
    await stores.upstreamAccesses.set(access);

    const read = await stores.upstreamAccesses.byId(access.id);
    expect(read?.vouchedHosts).toEqual(['mcp.example:443']);
  });

  test('an access without a resource stays one', async () => {
    const unnamed = accessWith({ resource: undefined });
    await stores.upstreamAccesses.set(unnamed);

    expect(await stores.upstreamAccesses.byId(unnamed.id)).toEqual(unnamed);
  });

  test('an access is for the URL that its server has, and ends with it', async () => {
    const other = await stores.upstreamAccesses.set(accessWith({ url: 'https://evil.example/' }));
    const access = await accessInForce();
    await stores.upstreamAccesses.setTellsCallers(serverId, true);
    await stores.serverDirectory.update(serverId, { upstream: { kind: 'http', url } });
    const same = await upstream();
    const moved = { kind: 'http', url: 'https://evil.example/mcp' } as const;
    await stores.serverDirectory.update(serverId, { upstream: moved });
    const after = await upstream();
    await stores.serverDirectory.update(serverId, { upstream: { kind: 'http', url } });

    expect(other).toBe(false);
    expect(same).toEqual({ kind: 'http', url, accessId: access.id, tellsCallers: true });
    expect(after).toEqual(moved);
    expect(await upstream()).toEqual({ kind: 'http', url });
  });

  test('the admission of a call says what its upstream wants', async () => {
    const access = await accessInForce();
    await stores.upstreamAccesses.setTellsCallers(serverId, true);
    const at = { organization: org.replace('_', '-'), server: 'web', userId: await member() };

    const admitted = await sqliteAdmissions(stores.connection).byPerson(at);

    expect(admitted?.server.upstream).toMatchObject({ accessId: access.id, tellsCallers: true });
  });

  test('fixed headers are kept as they are, given to who lets callers in, and go with the upstream', async () => {
    const previous = { sealed: 'c', hint: '…cccc', setAt: now - 1, until: now + 9 };
    const headers = [
      { name: 'a-key', sealed: 'a', setAt: now },
      { name: 'x-key', sealed: 'b', hint: '…bbbb', setAt: now, previous },
    ];
    const access = await accessInForce();
    await stores.serverDirectory.update(serverId, { upstream: { kind: 'http', url, headers } });
    const kept = await upstream();
    const at = { organization: org.replace('_', '-'), server: 'web', userId: await member() };
    const admitted = await sqliteAdmissions(stores.connection).byPerson(at);
    await stores.serverDirectory.update(serverId, { title: 'Web' });
    const later = await upstream();
    await stores.serverDirectory.update(serverId, { upstream: { kind: 'http', url } });

    expect(kept).toEqual({ kind: 'http', url, accessId: access.id, headers });
    expect(admitted?.server.upstream).toEqual(kept);
    expect(later).toEqual(kept);
    expect(await upstream()).toEqual({ kind: 'http', url, accessId: access.id });
  });

  test('refused fixed headers are noted once a minute, for those that are there, until they change', async () => {
    const header = { name: 'x-key', sealed: 'a', setAt: now };
    const headers = [{ ...header, previous: { sealed: 'b', setAt: now, until: now + 9 } }];
    const set = (to: typeof headers) =>
      stores.serverDirectory.update(serverId, { upstream: { kind: 'http', url, headers: to } });
    const noted = async (of: typeof headers, at: number) => {
      await stores.upstreamAccesses.noteHeadersRefused(serverId, of, at);
      const to = await upstream();
      return to?.kind === 'http' ? to.headersRefusedAt : undefined;
    };
    await set(headers);
    const others = headers.map((one) => ({ ...one, sealed: 'other' }));

    expect(await noted(others, now)).toBeUndefined();
    expect(await noted(headers, now)).toBe(now);
    expect(await noted(headers, now + 59)).toBe(now);
    expect(await noted(headers, now + 60)).toBe(now + 60);
    await set(others);
    expect(await upstream()).not.toHaveProperty('headersRefusedAt');
  });

  test('a connection is its person’s alone, and a new one takes its place', async () => {
    const access = await accessInForce();
    const [dana, eve] = [await member(), await member()];
    await connected(access, dana, 'first');
    const second = await connected(access, dana, 'second');

    const kept = await stores.upstreamConnections.of(access.id, dana);

    expect(kept).toMatchObject({ id: second.id, userId: dana, sealedTokens: 'second', version: 0 });
    expect(await stores.upstreamConnections.of(access.id, eve)).toBeUndefined();
    expect(await due()).toMatchObject([{ userId: dana, sealedTokens: 'first' }]);
  });

  test('nobody is connected who is no member, or to what is not in force', async () => {
    const access = await accessInForce();
    const dana = await member();
    const of = { id: 'x', serverId, sealedTokens: 't', createdAt: now, organizationId: org };
    const put = (accessId: string, userId: string) =>
      stores.upstreamConnections.put({ ...of, accessId, userId });

    expect(await put(access.id, 'user_nobody')).toBe(false);
    expect(await put('upa_none', dana)).toBe(false);
    await stores.upstreamAccesses.clear(serverId);
    expect(await put(access.id, dana)).toBe(false);
  });

  test('one of many may renew, and until they gave it up nobody else', async () => {
    const access = await accessInForce();
    const dana = await member();
    const at = await connected(access, dana);
    const claim = (time = now) =>
      stores.upstreamConnections.claim(at, { now: time, until: time + 30 });
    const claims = await Promise.all(Array.from({ length: 8 }, () => claim()));
    await stores.upstreamConnections.release(at);
    const again = [await claim(), await claim(now + 29), await claim(now + 30)];

    expect(claims.filter(Boolean)).toHaveLength(1);
    expect(again).toEqual([true, false, true]);
  });

  test('renewed tokens count once, and none for a connection that was made anew or ended', async () => {
    const access = await accessInForce();
    const [dana, eve] = [await member(), await member()];
    const at = await connected(access, dana);
    const renew = (which: typeof at) =>
      stores.upstreamConnections.renew(which, { sealedTokens: 'renewed', now: now + 9 });
    const renewed = [await renew(at), await renew(at)];
    const kept = await stores.upstreamConnections.of(access.id, dana);
    await connected(access, dana, 'made anew');
    const late = await renew({ id: at.id, version: 1 });
    const ended = await connected(access, eve);
    await stores.upstreamConnectionDirectory.end(access.id, eve);

    expect(renewed).toEqual([true, false]);
    expect(kept).toMatchObject({ sealedTokens: 'renewed', version: 1, renewedAt: now + 9 });
    expect([late, await renew(ended)]).toEqual([false, false]);
  });

  test('what the authorization server takes no longer is not claimed again', async () => {
    const access = await accessInForce();
    const at = await connected(access, await member());
    await stores.upstreamConnections.release(at, now + 1);

    const claimed = await stores.upstreamConnections.claim(at, { now, until: now + 30 });
    const [listed] = await stores.upstreamConnectionDirectory.list(access.id);

    expect(claimed).toBe(false);
    expect(listed?.failedAt).toBe(now + 1);
  });

  type Ending = (access: UpstreamAccess, userId: string) => Promise<unknown>;
  test.each<[string, Ending]>([
    ['the person disconnects', ({ id }, who) => stores.upstreamConnectionDirectory.end(id, who)],
    ['the membership is removed', (_access, who) => stores.memberships.remove(org, who, 'member')],
    ['the person is removed', (_access, who) => stores.users.remove(who)],
    ['the server is removed', () => stores.serverDirectory.remove(serverId)],
    ['another access is set', () => accessInForce()],
    [
      'the server is pointed elsewhere',
      () =>
        stores.serverDirectory.update(serverId, {
          upstream: { kind: 'http', url: 'https://other.example/mcp' },
        }),
    ],
    ['the access is cleared', () => stores.upstreamAccesses.clear(serverId)],
    [
      'the organization is removed',
      () => stores.db.deleteFrom('organization').where('id', '=', org).execute(),
    ],
  ])('when %s, its tokens count no longer and wait to be revoked', async (_title, end) => {
    const access = await accessInForce();
    const userId = await member();
    const { id } = await connected(access, userId);

    await end(access, userId);

    expect(await stores.upstreamConnections.of(access.id, userId)).toBeUndefined();
    expect(await stores.upstreamConnectionDirectory.list(access.id)).toEqual([]);
    const ended = { id, accessId: access.id, serverId, userId, sealedTokens: 'tokens' };
    expect(await due()).toMatchObject([{ ...ended, attempts: 0 }]);
  });

  test('an end names its server and organization as long as they are there', async () => {
    const access = await accessInForce();
    const [dana, eve] = [await member(), await member()];
    await connected(access, dana);
    await connected(access, eve);
    await stores.upstreamConnectionDirectory.end(access.id, dana);
    const organization = org.replace('_', '-');
    const disconnected = await due();
    await stores.serverDirectory.remove(serverId);
    const removed = (await due()).filter(({ userId }) => userId === eve);

    expect(disconnected).toMatchObject([{ userId: dana, organization, server: 'web' }]);
    expect(removed).toMatchObject([{ organization, server: serverId }]);
  });

  test('an access is in force while its server names it', async () => {
    const access = await accessInForce();
    const before = await stores.upstreamAccesses.isInForce(access.id);
    const next = await accessInForce();

    expect(before).toBe(true);
    expect(await stores.upstreamAccesses.isInForce(access.id)).toBe(false);
    expect(await stores.upstreamAccesses.isInForce(next.id)).toBe(true);
  });

  const registration = { url: 'https://as.example/register/c1', sealedToken: 'sealed token' };
  const over = async (at = now) =>
    (await stores.endedRegistrations.due(at, 100)).filter(
      ({ access }) => access.serverId === serverId,
    );
  const setRegistered = async () => {
    const at = `https://as.example/register/${randomUUID()}`;
    const access = accessWith({ registration: { ...registration, url: at } });
    await stores.upstreamAccesses.set(access);
    return access;
  };

  test("a registration is over once no server and nobody's tokens need it, and the access is kept until it is told", async () => {
    const access = await setRegistered();
    const userId = await member();
    const { id } = await connected(access, userId);
    const inForce = await over();
    await stores.upstreamAccesses.clear(serverId);
    const connectedStill = await over();
    await stores.endedConnections.remove(id);
    await stores.endedConnections.forgetAccesses();
    const [ended] = await over();
    const postpone = () =>
      stores.endedRegistrations.postpone({ accessId: access.id, attempts: 0 }, now + 60);
    const first = await Promise.all([postpone(), postpone()]);
    const soon = await over(now + 59);
    const [later] = await over(now + 60);
    await stores.endedRegistrations.remove(access.id);
    await stores.endedConnections.forgetAccesses();

    expect([inForce, connectedStill, soon]).toEqual([[], [], []]);
    expect(ended).toMatchObject({ access, registration: access.registration, server: 'web' });
    expect(first.filter(Boolean)).toHaveLength(1);
    expect(later?.attempts).toBe(1);
    expect(await stores.upstreamAccesses.byId(access.id)).toBeUndefined();
  });

  test("a registration that another access took over is that one's, and told of once", async () => {
    const first = await setRegistered();
    const second = { ...first, id: `upa_${randomUUID()}`, resource: undefined };
    await stores.upstreamAccesses.set(second);
    const taken = await over();
    await stores.upstreamAccesses.clear(serverId);
    for (let round = 0; round < 2; round += 1) await stores.endedConnections.forgetAccesses();

    expect(taken).toEqual([]);
    expect(await over()).toHaveLength(1);
  });

  test('an end is told by one of many at a time, and the access is kept until then', async () => {
    const access = await accessInForce();
    const userId = await member();
    const { id } = await connected(access, userId);
    await stores.upstreamAccesses.clear(serverId);
    const postpone = (attempts: number) =>
      stores.endedConnections.postpone({ id, attempts }, now + 60);
    const first = await Promise.all([postpone(0), postpone(0), postpone(0)]);
    const soon = await due(now + 59);
    const [later] = await due(now + 60);
    await stores.endedConnections.forgetAccesses();
    const needed = await stores.upstreamAccesses.byId(access.id);
    await stores.endedConnections.remove(id);
    await stores.endedConnections.forgetAccesses();

    expect(first.filter(Boolean)).toHaveLength(1);
    expect(soon).toEqual([]);
    expect(later?.attempts).toBe(1);
    expect(needed?.id).toBe(access.id);
    expect(await stores.upstreamAccesses.byId(access.id)).toBeUndefined();
  });
});
