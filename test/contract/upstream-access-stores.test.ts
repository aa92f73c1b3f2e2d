import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { active } from '#server/gateway/admission';
import {
  type UpstreamAccess,
  replaceUpstreamAccess,
  findUpstreamAccess,
  isUpstreamAccessActive,
  removeUpstreamAccess,
  updateForwardsCaller,
  deleteUnusedUpstreamAccesses,
  listEndedRegistrations,
  postponeEndedRegistration,
  deleteEndedRegistration,
} from '#server/db/upstream-access';
import { insertOrganization } from '#server/db/organizations';
import {
  deleteServer,
  findServer,
  insertServer,
  updateServer,
  noteHeadersRefused,
} from '#server/db/servers';
import { insertUser, deleteUser, removeMember } from '#server/db/people';
import {
  findUpstreamConnection,
  replaceUpstreamConnection,
  claimUpstreamConnection,
  renewUpstreamConnection,
  releaseUpstreamConnection,
  listUpstreamConnections,
  endUpstreamConnection,
  listEndedConnections,
  postponeEndedConnection,
  deleteEndedConnection,
} from '#server/db/upstream-connections';
import { onEachDatabase, type TestDatabase } from '#support/databases';

const now = 1_800_000_000;
const url = 'https://mcp.example/mcp';

await onEachDatabase('upstream access', ({ open }) => {
  let stores: TestDatabase;
  let org: string;
  let serverId: string;
  let targetId: string;
  beforeAll(async () => {
    stores = await open();
  });
  afterAll(() => stores[Symbol.asyncDispose]());
  beforeEach(async () => {
    org = `org_${randomUUID()}`;
    serverId = `srv_${randomUUID()}`;
    targetId = `target_${randomUUID()}`;
    await insertOrganization(stores.db, { id: org, name: org.replace('_', '-'), createdAt: now });
    const upstream = { kind: 'http', url } as const;
    const ids = { id: serverId, targetId, organizationId: org };
    await insertServer(stores.db, { ...ids, name: 'web', upstream, createdAt: now });
  });

  const accessWith = (but: Partial<UpstreamAccess> = {}): UpstreamAccess => ({
    id: `upa_${randomUUID()}`,
    targetId,
    endpointId: serverId,
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
    expect(await replaceUpstreamAccess(stores.db, access)).toBe(true);
    return access;
  };
  const member = async () => {
    const userId = `user_${randomUUID()}`;
    const user = { id: userId, email: `${userId}@example.com`, createdAt: now };
    await insertUser(stores.db, user, { organizationId: org, role: 'member' });
    return userId;
  };
  const connected = async (access: UpstreamAccess, userId: string, sealedTokens = 'tokens') => {
    const id = `upc_${randomUUID()}`;
    const of = { id, accessId: access.id, targetId, userId, organizationId: org };
    await replaceUpstreamConnection(stores.db, { ...of, sealedTokens, createdAt: now });
    return { id, version: 0 };
  };
  const upstream = async () =>
    (await findServer(stores.db, org.replace('_', '-'), 'web'))?.target.upstream;
  const due = async (at = now) =>
    (await listEndedConnections(stores.db, at, 100)).filter((one) => one.targetId === targetId);

  test('a server refers to the access that was set last, and to none once it is cleared', async () => {
    const first = await accessInForce();
    const changed = { ...first, clientId: 'other', scopes: [], sealedClientSecret: undefined };
    await replaceUpstreamAccess(stores.db, changed);
    const kept = await findUpstreamAccess(stores.db, first.id);
    const named = await upstream();
    await removeUpstreamAccess(stores.db, targetId);

    expect(kept).toEqual(changed);
    expect(named).toEqual({ kind: 'http', url, accessId: first.id });
    expect(await upstream()).toEqual({ kind: 'http', url });
  });

  test('a vouched host without a port, from an older version, allows port 443 only', async () => {
    const access = accessWith({ vouchedHosts: ['mcp.example'] });
    await replaceUpstreamAccess(stores.db, access);

    const read = await findUpstreamAccess(stores.db, access.id);
    expect(read?.vouchedHosts).toEqual(['mcp.example:443']);
  });

  test('an access without a resource stays without one', async () => {
    const unnamed = accessWith({ resource: undefined });
    await replaceUpstreamAccess(stores.db, unnamed);

    expect(await findUpstreamAccess(stores.db, unnamed.id)).toEqual(unnamed);
  });

  test('an access belongs to its server’s URL, and ends when the URL changes', async () => {
    const other = await replaceUpstreamAccess(
      stores.db,
      accessWith({ url: 'https://evil.example/' }),
    );
    const access = await accessInForce();
    await updateForwardsCaller(stores.db, targetId, true);
    await updateServer(stores.db, serverId, { upstream: { kind: 'http', url } });
    const same = await upstream();
    const moved = { kind: 'http', url: 'https://evil.example/mcp' } as const;
    await updateServer(stores.db, serverId, { upstream: moved });
    const after = await upstream();
    await updateServer(stores.db, serverId, { upstream: { kind: 'http', url } });

    expect(other).toBe(false);
    expect(same).toEqual({ kind: 'http', url, accessId: access.id, forwardsCaller: true });
    expect(after).toEqual(moved);
    expect(await upstream()).toEqual({ kind: 'http', url });
  });

  test('an access that is set while the URL changes never stays with the other URL', async () => {
    const moved = { kind: 'http', url: 'https://evil.example/mcp' } as const;
    const races: boolean[] = [];
    for (let race = 0; race < 8; race += 1) {
      await updateServer(stores.db, serverId, { upstream: { kind: 'http', url } });
      await Promise.all([
        replaceUpstreamAccess(stores.db, accessWith({ id: `upa_${randomUUID()}` })),
        updateServer(stores.db, serverId, { upstream: moved }),
        updateForwardsCaller(stores.db, targetId, true),
      ]);
      races.push(Object.hasOwn((await upstream()) ?? {}, 'accessId'));
    }

    expect(races).toEqual(Array.from({ length: 8 }, () => false));
  });

  test('a server whose kind of upstream is unknown is refused rather than guessed', async () => {
    await stores.db
      .updateTable('target')
      .set({ upstream_kind: 'carrier-pigeon' })
      .where('id', '=', targetId)
      .execute();

    await expect(upstream()).rejects.toThrow('no upstream that this program knows');
  });

  test('the admission of a call contains its upstream’s access settings', async () => {
    const access = await accessInForce();
    await updateForwardsCaller(stores.db, targetId, true);
    const at = { organization: org.replace('_', '-'), server: 'web', userId: await member() };

    const admitted = active(await stores.admissions.byPerson(at));

    expect(admitted?.endpoint.target.upstream).toMatchObject({
      accessId: access.id,
      forwardsCaller: true,
    });
  });

  test('fixed headers are stored as given, returned by admission, and removed with the upstream', async () => {
    const previous = { sealed: 'c', hint: '…cccc', setAt: now - 1, until: now + 9 };
    const headers = [
      { name: 'a-key', sealed: 'a', setAt: now },
      { name: 'x-key', sealed: 'b', hint: '…bbbb', setAt: now, previous },
    ];
    const access = await accessInForce();
    await updateServer(stores.db, serverId, { upstream: { kind: 'http', url, headers } });
    const kept = await upstream();
    const at = { organization: org.replace('_', '-'), server: 'web', userId: await member() };
    const admitted = active(await stores.admissions.byPerson(at));
    await updateServer(stores.db, serverId, { title: 'Web' });
    const later = await upstream();
    await updateServer(stores.db, serverId, { upstream: { kind: 'http', url } });

    expect(kept).toEqual({ kind: 'http', url, accessId: access.id, headers });
    expect(admitted?.endpoint.target.upstream).toEqual(kept);
    expect(later).toEqual(kept);
    expect(await upstream()).toEqual({ kind: 'http', url, accessId: access.id });
  });

  test('a refusal of the current fixed headers is recorded once a minute, until they change', async () => {
    const header = { name: 'x-key', sealed: 'a', setAt: now };
    const headers = [{ ...header, previous: { sealed: 'b', setAt: now, until: now + 9 } }];
    const set = (to: typeof headers) =>
      updateServer(stores.db, serverId, { upstream: { kind: 'http', url, headers: to } });
    const noted = async (of: typeof headers, at: number) => {
      await noteHeadersRefused(stores.db, targetId, of, at);
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

  test('a connection belongs to its person alone, and a new one replaces it', async () => {
    const access = await accessInForce();
    const [dana, eve] = [await member(), await member()];
    await connected(access, dana, 'first');
    const second = await connected(access, dana, 'second');

    const kept = await findUpstreamConnection(stores.db, access.id, dana);

    expect(kept).toMatchObject({ id: second.id, userId: dana, sealedTokens: 'second', version: 0 });
    expect(await findUpstreamConnection(stores.db, access.id, eve)).toBeUndefined();
    expect(await due()).toMatchObject([{ userId: dana, sealedTokens: 'first' }]);
  });

  test('a connection needs a member and an active access', async () => {
    const access = await accessInForce();
    const dana = await member();
    const of = { id: 'x', targetId, sealedTokens: 't', createdAt: now, organizationId: org };
    const put = (accessId: string, userId: string) =>
      replaceUpstreamConnection(stores.db, { ...of, accessId, userId });

    expect(await put(access.id, 'user_nobody')).toBe(false);
    expect(await put('upa_none', dana)).toBe(false);
    await removeUpstreamAccess(stores.db, targetId);
    expect(await put(access.id, dana)).toBe(false);
  });

  test('of several renewals one is claimed, and no other until it is released or times out', async () => {
    const access = await accessInForce();
    const dana = await member();
    const at = await connected(access, dana);
    const claim = (time = now) =>
      claimUpstreamConnection(stores.db, at, { now: time, until: time + 30 });
    const claims = await Promise.all(Array.from({ length: 8 }, () => claim()));
    await releaseUpstreamConnection(stores.db, at);
    const again = [await claim(), await claim(now + 29), await claim(now + 30)];

    expect(claims.filter(Boolean)).toHaveLength(1);
    expect(again).toEqual([true, false, true]);
  });

  test('renewed tokens are stored once, and never for a replaced or ended connection', async () => {
    const access = await accessInForce();
    const [dana, eve] = [await member(), await member()];
    const at = await connected(access, dana);
    const renew = (which: typeof at) =>
      renewUpstreamConnection(stores.db, which, { sealedTokens: 'renewed', now: now + 9 });
    const renewed = [await renew(at), await renew(at)];
    const kept = await findUpstreamConnection(stores.db, access.id, dana);
    await connected(access, dana, 'made anew');
    const late = await renew({ id: at.id, version: 1 });
    const ended = await connected(access, eve);
    await endUpstreamConnection(stores.db, access.id, eve);

    expect(renewed).toEqual([true, false]);
    expect(kept).toMatchObject({ sealedTokens: 'renewed', version: 1, renewedAt: now + 9 });
    expect([late, await renew(ended)]).toEqual([false, false]);
  });

  test('a connection that the authorization server rejected is not claimed again', async () => {
    const access = await accessInForce();
    const at = await connected(access, await member());
    await releaseUpstreamConnection(stores.db, at, now + 1);

    const claimed = await claimUpstreamConnection(stores.db, at, { now, until: now + 30 });
    const [listed] = await listUpstreamConnections(stores.db, access.id);

    expect(claimed).toBe(false);
    expect(listed?.failedAt).toBe(now + 1);
  });

  type Ending = (access: UpstreamAccess, userId: string) => Promise<unknown>;
  test.each<[string, Ending]>([
    ['the person disconnects', ({ id }, who) => endUpstreamConnection(stores.db, id, who)],
    ['the membership is removed', (_access, who) => removeMember(stores.db, org, who, 'member')],
    ['the person is removed', (_access, who) => deleteUser(stores.db, who)],
    ['the server is removed', () => deleteServer(stores.db, serverId)],
    ['another access is set', () => accessInForce()],
    [
      'the server is pointed elsewhere',
      () =>
        updateServer(stores.db, serverId, {
          upstream: { kind: 'http', url: 'https://other.example/mcp' },
        }),
    ],
    ['the access is cleared', () => removeUpstreamAccess(stores.db, targetId)],
    [
      'the organization is removed',
      () => stores.db.deleteFrom('organization').where('id', '=', org).execute(),
    ],
  ])('when %s, its tokens become invalid and wait to be revoked', async (_title, end) => {
    const access = await accessInForce();
    const userId = await member();
    const { id } = await connected(access, userId);

    await end(access, userId);

    expect(await findUpstreamConnection(stores.db, access.id, userId)).toBeUndefined();
    expect(await listUpstreamConnections(stores.db, access.id)).toEqual([]);
    const ended = { id, accessId: access.id, targetId, userId, sealedTokens: 'tokens' };
    expect(await due()).toMatchObject([{ ...ended, attempts: 0 }]);
  });

  test('an ended connection names its server and organization as long as they exist', async () => {
    const access = await accessInForce();
    const [dana, eve] = [await member(), await member()];
    await connected(access, dana);
    await connected(access, eve);
    await endUpstreamConnection(stores.db, access.id, dana);
    const organization = org.replace('_', '-');
    const disconnected = await due();
    await deleteServer(stores.db, serverId);
    const removed = (await due()).filter(({ userId }) => userId === eve);

    expect(disconnected).toMatchObject([{ userId: dana, organization, server: 'web' }]);
    expect(removed).toMatchObject([{ organization, server: serverId }]);
  });

  test('an access is active while its server refers to it', async () => {
    const access = await accessInForce();
    const before = await isUpstreamAccessActive(stores.db, access.id);
    const next = await accessInForce();

    expect(before).toBe(true);
    expect(await isUpstreamAccessActive(stores.db, access.id)).toBe(false);
    expect(await isUpstreamAccessActive(stores.db, next.id)).toBe(true);
  });

  const registration = { url: 'https://as.example/register/c1', sealedToken: 'sealed token' };
  const over = async (at = now) =>
    (await listEndedRegistrations(stores.db, at, 100)).filter(
      ({ access }) => access.targetId === targetId,
    );
  const setRegistered = async () => {
    const at = `https://as.example/register/${randomUUID()}`;
    const access = accessWith({ registration: { ...registration, url: at } });
    await replaceUpstreamAccess(stores.db, access);
    return access;
  };

  test('a registration ends when no server or connection needs it, and its access stays until it is deregistered', async () => {
    const access = await setRegistered();
    const userId = await member();
    const { id } = await connected(access, userId);
    const inForce = await over();
    await removeUpstreamAccess(stores.db, targetId);
    const connectedStill = await over();
    await deleteEndedConnection(stores.db, id);
    await deleteUnusedUpstreamAccesses(stores.db);
    const [ended] = await over();
    const postpone = () =>
      postponeEndedRegistration(stores.db, { accessId: access.id, attempts: 0 }, now + 60);
    const first = await Promise.all([postpone(), postpone()]);
    const soon = await over(now + 59);
    const [later] = await over(now + 60);
    await deleteEndedRegistration(stores.db, access.id);
    await deleteUnusedUpstreamAccesses(stores.db);

    expect([inForce, connectedStill, soon]).toEqual([[], [], []]);
    expect(ended).toMatchObject({ access, registration: access.registration, server: 'web' });
    expect(first.filter(Boolean)).toHaveLength(1);
    expect(later?.attempts).toBe(1);
    expect(await findUpstreamAccess(stores.db, access.id)).toBeUndefined();
  });

  test('a registration that another access took over ends with that one, and is deregistered once', async () => {
    const first = await setRegistered();
    const second = { ...first, id: `upa_${randomUUID()}`, resource: undefined };
    await replaceUpstreamAccess(stores.db, second);
    const taken = await over();
    await removeUpstreamAccess(stores.db, targetId);
    for (let round = 0; round < 2; round += 1) await deleteUnusedUpstreamAccesses(stores.db);

    expect(taken).toEqual([]);
    expect(await over()).toHaveLength(1);
  });

  test('an ended connection is claimed by one process at a time, and its access stays until it is revoked', async () => {
    const access = await accessInForce();
    const userId = await member();
    const { id } = await connected(access, userId);
    await removeUpstreamAccess(stores.db, targetId);
    const postpone = (attempts: number) =>
      postponeEndedConnection(stores.db, { id, attempts }, now + 60);
    const first = await Promise.all([postpone(0), postpone(0), postpone(0)]);
    const soon = await due(now + 59);
    const [later] = await due(now + 60);
    await deleteUnusedUpstreamAccesses(stores.db);
    const needed = await findUpstreamAccess(stores.db, access.id);
    await deleteEndedConnection(stores.db, id);
    await deleteUnusedUpstreamAccesses(stores.db);

    expect(first.filter(Boolean)).toHaveLength(1);
    expect(soon).toEqual([]);
    expect(later?.attempts).toBe(1);
    expect(needed?.id).toBe(access.id);
    expect(await findUpstreamAccess(stores.db, access.id)).toBeUndefined();
  });
});
