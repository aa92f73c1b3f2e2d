import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { active } from '#server/gateway/admission';
import { markAssertionUsed } from '#server/db/client-secrets';
import {
  findClient,
  findDocumentedClient,
  insertClient,
  putDocumentedClient,
  revokeClient,
} from '#server/db/clients';
import {
  deleteConsents,
  findConsent,
  insertPendingRequest,
  putConsent,
  takePendingRequest,
} from '#server/db/consents';
import {
  beginGrant,
  findAuthorizationCode,
  insertAuthorizationCode,
  spendAuthorizationCode,
} from '#server/db/authorization-codes';
import {
  findGrant,
  findRefreshToken,
  listGrantsOfPerson,
  revokeGrant,
  setGrantTools,
  spendRefreshToken,
} from '#server/db/grants';
import { revokeAccessToken } from '#server/db/revoked-tokens';
import { insertOrganization } from '#server/db/organizations';
import { revokeGrantsOfPerson } from '#server/db/person-grants';
import { insertServer } from '#server/db/servers';
import type { Scope } from '#server/model/scopes';
import { insertUser, deleteUser } from '#server/db/people';
import { countConnectedApps, updateSettings } from '#server/db/settings';
import { insertGroup, insertGroupMember, removeGroupMember } from '#server/db/groups';
import { setServerAccess } from '#server/db/server-access';
import { updateLastUses } from '#server/db/last-uses';
import { onEachDatabase, type TestDatabase } from '#support/databases';

const now = 1_800_000_000;
const scopes: Scope[] = ['mcp:tools:read', 'mcp:server:manage'];
const tools = { type: 'read-only' } as const;
const shown = { serverId: 'srv_1', scopes };

await onEachDatabase('grants', ({ open }) => {
  let stores: TestDatabase;
  beforeAll(async () => {
    stores = await open();
    await insertOrganization(stores.db, { id: 'org_1', name: 'acme', createdAt: now });
    await insertServer(stores.db, {
      id: 'srv_1',
      targetId: 'target_1',
      organizationId: 'org_1',
      name: 'sales',
      upstream: { kind: 'demo' },
      createdAt: now,
    });
  });
  afterAll(() => stores[Symbol.asyncDispose]());

  const person = async () => {
    const id = `user_${randomUUID()}`;
    const user = { id, email: `${id}@example.com`, createdAt: now };
    await insertUser(stores.db, user, { organizationId: 'org_1', role: 'admin' });
    return id;
  };
  const client = async (serverId: string | undefined = 'srv_1') => {
    const id = `client_${randomUUID()}`;
    const none = { jwks: undefined, secretHash: undefined, secretHint: undefined };
    const made = { id, name: 'Claude', serverId, scopes, redirectUris: [], createdAt: now };
    await insertClient(stores.db, { ...made, ...none });
    return id;
  };
  const code = async (clientId?: string) => {
    const made = {
      hash: randomUUID(),
      grantId: `grant_${randomUUID()}`,
      userId: await person(),
      clientId: clientId ?? (await client()),
      serverId: 'srv_1',
      scopes,
      tools,
      redirectUri: 'https://app.example/cb',
      codeChallenge: 'challenge',
      expiresAt: now + 60,
    };
    await insertAuthorizationCode(stores.db, made, now);
    return made;
  };
  const grant = async (clientId?: string) => {
    const { hash, ...made } = await code(clientId);
    const refreshToken = { hash: randomUUID(), expiresAt: now + 1000 };
    const begun = {
      id: made.grantId,
      userId: made.userId,
      clientId: made.clientId,
      serverId: made.serverId,
      scopes,
      tools,
      redirectHost: 'app.example',
      authenticated: true,
      createdAt: now,
      expiresAt: now + 5000,
    };
    const isFirst = await beginGrant(stores.db, hash, begun, refreshToken);
    return { begun, isFirst, codeHash: hash, refreshToken };
  };
  const successor = () => ({ hash: randomUUID(), sealed: randomUUID(), expiresAt: now + 2000 });

  test('code: it is read as stored, with the path of its server', async () => {
    const made = await code();

    expect(await findAuthorizationCode(stores.db, made.hash)).toEqual({
      ...made,
      serverPath: 'acme/sales',
      spentAt: undefined,
    });
    expect(await findAuthorizationCode(stores.db, 'unknown')).toBeUndefined();
  });

  test('code: it starts its grant only once', async () => {
    const { begun, isFirst, codeHash, refreshToken } = await grant();
    const again = { hash: randomUUID(), expiresAt: now };

    expect(isFirst).toBe(true);
    expect(await beginGrant(stores.db, codeHash, { ...begun, id: 'grant_x' }, again)).toBe(false);
    expect(await findAuthorizationCode(stores.db, codeHash)).toMatchObject({ spentAt: now });
    expect(await findRefreshToken(stores.db, refreshToken.hash)).toMatchObject({
      expiresAt: refreshToken.expiresAt,
      spentAt: undefined,
      grant: {
        ...begun,
        clientName: 'Claude',
        serverPath: 'acme/sales',
      },
    });
    expect(await findRefreshToken(stores.db, again.hash)).toBeUndefined();
  });

  test('code: one that was spent without a grant keeps the time of its first use', async () => {
    const made = await code();
    await spendAuthorizationCode(stores.db, made.hash, now + 1);
    await spendAuthorizationCode(stores.db, made.hash, now + 2);

    expect(await findAuthorizationCode(stores.db, made.hash)).toMatchObject({ spentAt: now + 1 });
  });

  test('grant: what it is limited to is changed until it is revoked, and narrowing it forgets the consent', async () => {
    const { begun } = await grant();
    const { userId, clientId, serverId } = begun;
    const subject = { userId, clientId, serverId, redirectHost: 'app.example' };
    await putConsent(stores.db, subject, scopes, now + 100);
    const toolsNow = async () => (await findGrant(stores.db, begun.id))?.tools;

    const widened = await setGrantTools(stores.db, begun.id, { type: 'all' });
    const wide = [await toolsNow(), await findConsent(stores.db, subject, now)];
    await setGrantTools(stores.db, begun.id, tools);
    const narrow = [await toolsNow(), await findConsent(stores.db, subject, now)];
    await revokeGrant(stores.db, begun.id, now);

    expect([widened, wide, narrow]).toEqual([true, [{ type: 'all' }, scopes], [tools, []]]);
    expect(await setGrantTools(stores.db, begun.id, tools)).toBe(false);
  });

  test('grant: it is revoked once, and listed until then', async () => {
    const { begun } = await grant();
    const listed = await listGrantsOfPerson(stores.db, begun.userId, now);

    expect(listed.map(({ id }) => id)).toEqual([begun.id]);
    expect(await listGrantsOfPerson(stores.db, begun.userId, begun.expiresAt)).toEqual([]);
    expect(await revokeGrant(stores.db, begun.id, now + 1)).toBe(true);
    expect(await revokeGrant(stores.db, begun.id, now + 2)).toBe(false);
    expect(await listGrantsOfPerson(stores.db, begun.userId, now)).toEqual([]);
    expect(await findGrant(stores.db, begun.id)).toMatchObject({ revokedAt: now + 1 });
  });

  test('grant: the time of its last use is stored', async () => {
    const { begun } = await grant();
    await updateLastUses(stores.db, [{ type: 'grant', id: begun.id, usedAt: now + 10 }]);
    await updateLastUses(stores.db, [{ type: 'grant', id: begun.id, usedAt: now + 5 }]);

    expect(await findGrant(stores.db, begun.id)).toMatchObject({ lastUsedAt: now + 10 });
  });

  test('grant: revoking everything that a person granted also forgets their consents', async () => {
    const { begun } = await grant();
    const { userId, clientId, serverId } = begun;
    const subject = { userId, clientId, serverId, redirectHost: 'app.example' };
    await putConsent(stores.db, subject, scopes, now + 100);

    await revokeGrantsOfPerson(stores.db, userId, now);

    expect(await listGrantsOfPerson(stores.db, userId, now)).toEqual([]);
    expect(await findConsent(stores.db, subject, now)).toEqual([]);
  });

  test('refresh token: of ten concurrent uses one succeeds, and all return the same successor', async () => {
    const { refreshToken } = await grant();
    const brought = Array.from({ length: 10 }, successor);

    const all = await Promise.all(
      brought.map((next) => spendRefreshToken(stores.db, refreshToken.hash, next, now)),
    );
    const winner = brought[all.findIndex(({ outcome }) => outcome === 'spent')];
    const later = all.filter((one) => one.outcome === 'spent-before');

    expect(later).toHaveLength(9);
    for (const one of later) {
      expect(one).toEqual({
        outcome: 'spent-before',
        at: now,
        sealedSuccessor: winner?.sealed,
        successorUsed: false,
      });
    }
    expect(await findRefreshToken(stores.db, winner?.hash ?? '')).toBeDefined();
  });

  test('refresh token: spending one deletes the expired tokens of its grant', async () => {
    const { refreshToken } = await grant();
    const [second, third] = [successor(), successor()];
    await spendRefreshToken(stores.db, refreshToken.hash, second, now);
    await spendRefreshToken(stores.db, second.hash, third, refreshToken.expiresAt + 1);

    expect(await findRefreshToken(stores.db, refreshToken.hash)).toBeUndefined();
    expect(await findRefreshToken(stores.db, second.hash)).toBeDefined();
    expect(await findRefreshToken(stores.db, third.hash)).toBeDefined();
  });

  test('refresh token: a repeated use reports that the successor was used', async () => {
    const { refreshToken } = await grant();
    const second = successor();
    await spendRefreshToken(stores.db, refreshToken.hash, second, now);
    await spendRefreshToken(stores.db, second.hash, successor(), now + 1);

    expect(
      await spendRefreshToken(stores.db, refreshToken.hash, successor(), now + 2),
    ).toMatchObject({ outcome: 'spent-before', successorUsed: true });
  });

  test('refresh token: one of a disabled server is found as suspended', async () => {
    const { refreshToken } = await grant();
    const disable = (at: number | null) =>
      stores.db.updateTable('endpoint').set({ disabled_at: at }).execute();
    await disable(now);
    const found = await findRefreshToken(stores.db, refreshToken.hash);
    await disable(null);

    expect(found).toMatchObject({ isSuspended: true });
    expect(await findRefreshToken(stores.db, refreshToken.hash)).toMatchObject({
      isSuspended: false,
    });
  });

  test('grant: one of a self-registered client is inactive while the organization disallows such clients', async () => {
    const registered = `client_${randomUUID()}`;
    const none = { jwks: undefined, secretHash: undefined, secretHint: undefined };
    const said = { name: 'Self', serverId: undefined, scopes, redirectUris: [], createdAt: now };
    await insertClient(stores.db, { ...said, ...none, id: registered });
    const grants = [await grant(registered), await grant()];
    const all = () =>
      Promise.all(
        grants.map(async ({ begun: { id, userId, clientId } }) => {
          const at = { organization: 'acme', server: 'sales', clientId, grant: { id, userId } };
          return active(await stores.admissions.byClient(at)) !== undefined;
        }),
      );
    const before = await all();

    await updateSettings(stores.db, 'org_1', { openClientsAllowed: false });
    const closed = await all();
    await updateSettings(stores.db, 'org_1', { openClientsAllowed: true });

    expect([before, closed, await all()]).toEqual([
      [true, true],
      [false, true],
      [true, true],
    ]);
  });

  test('grant: one of Latchkey’s proxy is inactive only while the organization disallows the proxy', async () => {
    const id = `https://latchkey.example/${randomUUID()}`;
    const none = { name: 'Latchkey', redirectUris: [], jwks: undefined };
    await putDocumentedClient(stores.db, { id, ...none, isLatchkeyProxy: true }, now);
    const { begun } = await grant(id);
    const at = { organization: 'acme', server: 'sales', clientId: id };
    const found = async () =>
      stores.admissions.byClient({ ...at, grant: { id: begun.id, userId: begun.userId } });

    await updateSettings(stores.db, 'org_1', { openClientsAllowed: false });
    const admitted = await found();
    await updateSettings(stores.db, 'org_1', { latchkeyProxyAllowed: false });
    const refused = await found();
    await updateSettings(stores.db, 'org_1', {
      openClientsAllowed: true,
      latchkeyProxyAllowed: true,
    });

    expect(active(admitted)).toBeDefined();
    expect(refused).toMatchObject({ suspension: 'latchkey_proxy', endpoint: { name: 'sales' } });
    expect(active(await found())).toBeDefined();
  });

  test('settings: people, applications and connections that they affect are counted', async () => {
    const before = await countConnectedApps(stores.db, 'org_1', now);
    const proxy = `https://latchkey.example/${randomUUID()}`;
    const described = `https://client.example/${randomUUID()}`;
    const none = { name: 'D', redirectUris: [], jwks: undefined };
    await putDocumentedClient(stores.db, { id: proxy, ...none, isLatchkeyProxy: true }, now);
    await putDocumentedClient(stores.db, { id: described, ...none }, now);
    for (const id of [proxy, proxy, described]) await grant(id);
    const { begun } = await grant(described);
    await revokeGrant(stores.db, begun.id, now);
    await grant();

    const { selfRegistered, latchkeyProxy } = await countConnectedApps(stores.db, 'org_1', now);

    expect(latchkeyProxy.connections - before.latchkeyProxy.connections).toBe(2);
    expect(latchkeyProxy.people - before.latchkeyProxy.people).toBe(2);
    expect(selfRegistered.connections - before.selfRegistered.connections).toBe(1);
    expect(selfRegistered.apps - before.selfRegistered.apps).toBe(1);
  });

  test('client: one that registered itself and is unused for thirty days is deleted', async () => {
    const month = 30 * 24 * 3600;
    const url = () => `https://client.example/${randomUUID()}`;
    const made = async (id: string) => {
      const none = { jwks: undefined, secretHash: undefined, secretHint: undefined };
      const said = { id, name: 'Self', serverId: undefined, scopes, redirectUris: [] };
      await insertClient(stores.db, { ...said, ...none, createdAt: now });
      return id;
    };
    const put = async (id: string, at: number) => {
      await putDocumentedClient(
        stores.db,
        { id, name: 'D', redirectUris: [], jwks: undefined },
        at,
      );
      return id;
    };
    const idle = [await made(`client_${randomUUID()}`), await put(url(), now)];
    const [used, allowed, revoked] = [await made('c_1'), await made('c_2'), await made('c_3')];
    const read = await put(url(), now);
    const chosen = await client();
    await updateLastUses(stores.db, [{ type: 'client', id: used, usedAt: now + 10 }]);
    const subject = { userId: await person(), clientId: allowed, serverId: 'srv_1' };
    await putConsent(stores.db, { ...subject, redirectHost: 'h' }, scopes, now + 2 * month);
    await revokeClient(stores.db, revoked, now);
    await put(read, now + 10);

    await put(url(), now + month + 1);

    const known = async (id: string) => (await findClient(stores.db, id)) !== undefined;
    expect(await Promise.all(idle.map(known))).toEqual([false, false]);
    const kept = await Promise.all([used, allowed, revoked, read, chosen].map(known));
    expect(kept).toEqual([true, true, true, true, true]);
  });

  test('pending request: a session keeps its twenty latest', async () => {
    const request = {
      clientId: await client(),
      clientName: 'Claude',
      isSelfRegistered: false,
      serverPath: 'acme/sales',
      scopes,
      tools,
      redirectUri: 'https://app.example/cb',
      state: undefined,
      codeChallenge: 'challenge',
    };
    const userId = await person();
    const add = async (sessionId: string, index: number) => {
      const pending = { idHash: randomUUID(), sessionId, userId, request, shown };
      await insertPendingRequest(stores.db, { ...pending, expiresAt: now + 100 + index }, now);
      return pending.idHash;
    };
    const sessionId = `session_${randomUUID()}`;
    const other = await add(`session_${randomUUID()}`, 0);
    const hashes = [];
    for (let index = 0; index < 21; index += 1) hashes.push(await add(sessionId, index));
    const waiting = await stores.db
      .selectFrom('authorization_request')
      .select('id_hash')
      .where('person_id', '=', userId)
      .execute();

    const ids = waiting.map((row) => row.id_hash);
    expect(ids.toSorted()).toEqual([other, ...hashes.slice(1)].toSorted());
  });

  test('48: grant: a person who leaves an organization and returns has no codes, tokens or consents there', async () => {
    const { begun, refreshToken } = await grant();
    const { userId, clientId, serverId } = begun;
    const subject = { userId, clientId, serverId, redirectHost: 'app.example' };
    await putConsent(stores.db, subject, scopes, now + 100);
    const unredeemed = { ...(await code()), hash: randomUUID(), grantId: randomUUID(), userId };
    await insertAuthorizationCode(stores.db, unredeemed, now);
    const other = await grant();

    await stores.db.deleteFrom('membership').where('person_id', '=', userId).execute();
    const user = { id: userId, email: `${userId}@example.com`, createdAt: now };
    await insertUser(stores.db, user, { organizationId: 'org_1', role: 'admin' });

    expect(await findGrant(stores.db, begun.id)).toBeUndefined();
    expect(await findRefreshToken(stores.db, refreshToken.hash)).toBeUndefined();
    expect(await findAuthorizationCode(stores.db, unredeemed.hash)).toBeUndefined();
    expect(await findConsent(stores.db, subject, now)).toEqual([]);
    expect(await findGrant(stores.db, other.begun.id)).toBeDefined();
  });

  test('48: code: withdrawing consent deletes the unredeemed codes of that application only', async () => {
    const [mine, other] = [await code(), await code()];
    await deleteConsents(stores.db, mine);

    expect(await findAuthorizationCode(stores.db, mine.hash)).toBeUndefined();
    expect(await findAuthorizationCode(stores.db, other.hash)).toBeDefined();
  });

  test('48: code: withdrawing consent keeps a redeemed code, so that its reuse is detected', async () => {
    const { begun, codeHash } = await grant();
    await deleteConsents(stores.db, begun);

    expect(await findAuthorizationCode(stores.db, codeHash)).toMatchObject({ spentAt: now });
  });

  test('consent: it covers exactly what was allowed, until it expires or is withdrawn', async () => {
    const subject = {
      userId: await person(),
      clientId: await client(),
      serverId: 'srv_1',
      redirectHost: 'app.example',
    };
    await putConsent(stores.db, subject, ['mcp:tools:read'], now + 10);
    await putConsent(stores.db, subject, scopes, now + 100);

    expect(await findConsent(stores.db, subject, now + 99)).toEqual(scopes);
    expect(await findConsent(stores.db, subject, now + 100)).toEqual([]);
    expect(await findConsent(stores.db, { ...subject, redirectHost: 'x' }, now)).toEqual([]);
    await deleteConsents(stores.db, subject);
    expect(await findConsent(stores.db, subject, now)).toEqual([]);
  });

  test('pending request: it is used once, by its own session, before it expires', async () => {
    const request = {
      clientId: await client(),
      clientName: 'Claude',
      isSelfRegistered: false,
      serverPath: 'acme/sales',
      scopes,
      tools,
      redirectUri: 'https://app.example/cb',
      state: undefined,
      codeChallenge: 'challenge',
    };
    const userId = await person();
    const [idHash, late] = [randomUUID(), randomUUID()];
    const pending = {
      idHash,
      sessionId: 'session_1',
      userId,
      request,
      shown,
      expiresAt: now + 10,
    };
    await insertPendingRequest(stores.db, pending, now);
    await insertPendingRequest(stores.db, { ...pending, idHash: late }, now);
    const take = (hash: string, session: string, at = now) =>
      takePendingRequest(stores.db, hash, session, at);

    expect(await take(idHash, 'session_2')).toBeUndefined();
    expect(await take(idHash, 'session_1')).toEqual(pending);
    expect(await take(idHash, 'session_1')).toBeUndefined();
    expect(await take(late, 'session_1', now + 10)).toBeUndefined();
  });

  test('client assertion: it is used once by its client, and deleted once it has expired', async () => {
    const [one, two] = [await client(), await client()];
    const use = (clientId: string, at = now) =>
      markAssertionUsed(stores.db, { clientId, jti: 'jti', expiresAt: now + 10 }, at);

    expect(await use(one)).toBe(true);
    expect(await use(one)).toBe(false);
    expect(await use(two)).toBe(true);
    expect(await use(one, now + 11)).toBe(true);
  });

  test('client metadata document: a new version replaces the old one, and a revoked client stays revoked', async () => {
    const id = `https://client.example/${randomUUID()}`;
    const said = { id, name: 'One', redirectUris: ['https://a.example/'], jwks: undefined };
    await putDocumentedClient(stores.db, said, now);
    await revokeClient(stores.db, id, now + 1);
    await putDocumentedClient(stores.db, { ...said, name: 'Two' }, now + 2);

    expect(await findDocumentedClient(stores.db, id)).toMatchObject({
      fetchedAt: now + 2,
      client: { id, name: 'Two', serverId: undefined, serverPath: undefined, revokedAt: now + 1 },
    });
    expect(await findDocumentedClient(stores.db, await client())).toBeUndefined();
  });

  describe('access token of a grant: it is admitted', () => {
    const admitted = async (
      begun: { id: string; userId: string; clientId: string },
      but: { userId?: string; server?: string; clientId?: string } = {},
    ) => {
      const { userId = begun.userId, server = 'sales', clientId = begun.clientId } = but;
      const place = { organization: 'acme', server, clientId, tokenId: 'jti' };
      return active(
        await stores.admissions.byClient({ ...place, grant: { id: begun.id, userId } }),
      );
    };

    test('with the scopes that its client and role currently have', async () => {
      const { begun } = await grant();
      await setGrantTools(stores.db, begun.id, { type: 'all' });
      const before = await admitted(begun);
      await stores.db
        .updateTable('membership')
        .set({ role: 'member' })
        .where('person_id', '=', begun.userId)
        .execute();

      expect(before?.scopes).toEqual(scopes);
      expect((await admitted(begun))?.scopes).toEqual(['mcp:tools:read']);
    });

    test('without the scope to administer the server while it is limited to reading', async () => {
      const { begun } = await grant();
      await setGrantTools(stores.db, begun.id, { type: 'all' });
      const whole = await admitted(begun);
      await setGrantTools(stores.db, begun.id, { type: 'read-only' });

      expect(whole?.scopes).toEqual(scopes);
      expect((await admitted(begun))?.scopes).toEqual(['mcp:tools:read']);
    });

    test('only for its person, its client and its server', async () => {
      const { begun } = await grant();
      const [otherPerson, otherClient] = [await person(), await client()];

      expect(await admitted(begun)).toBeDefined();
      expect(await admitted(begun, { userId: otherPerson })).toBeUndefined();
      expect(await admitted(begun, { clientId: otherClient })).toBeUndefined();
      expect(await admitted(begun, { server: 'support' })).toBeUndefined();
    });

    test('only while its person is in a group of the server, if the server has groups', async () => {
      const { begun } = await grant();
      const groupId = `group_${randomUUID()}`;
      const sales = { id: groupId, organizationId: 'org_1', name: groupId, createdAt: now };
      const ofPerson = { organization: 'acme', server: 'sales', userId: begun.userId };
      const both = async () => [
        (await admitted(begun)) !== undefined,
        (await stores.admissions.byPerson(ofPerson)) !== undefined,
      ];
      await insertGroup(stores.db, sales);
      await insertGroupMember(stores.db, 'org_1', groupId, begun.userId);
      await setServerAccess(stores.db, 'srv_1', { access: 'groups', groupIds: [groupId] });

      const inside = await both();
      await removeGroupMember(stores.db, 'org_1', groupId, begun.userId);
      const outside = await both();
      await setServerAccess(stores.db, 'srv_1', { access: 'everyone', groupIds: [] });

      expect(inside).toEqual([true, true]);
      expect(outside).toEqual([false, false]);
      expect(await both()).toEqual([true, true]);
    });

    test.each<[string, (of: { id: string; userId: string; clientId: string }) => Promise<unknown>]>(
      [
        ['its grant', ({ id }) => revokeGrant(stores.db, id, now)],
        ['its client', ({ clientId }) => revokeClient(stores.db, clientId, now)],
        ['its person', ({ userId }) => deleteUser(stores.db, userId)],
        [
          'the membership',
          ({ userId }) =>
            stores.db.deleteFrom('membership').where('person_id', '=', userId).execute(),
        ],
      ],
    )('no longer once %s is removed', async (_, end) => {
      const { begun } = await grant();
      expect(await admitted(begun)).toBeDefined();

      await end(begun);

      expect(await admitted(begun)).toBeUndefined();
    });

    test('no longer once it is revoked or its organization is disabled', async () => {
      const { begun } = await grant();
      await stores.db.updateTable('organization').set({ disabled_at: now }).execute();
      const disabled = await admitted(begun);
      await stores.db.updateTable('organization').set({ disabled_at: null }).execute();
      await revokeAccessToken(stores.db, { id: 'jti', expiresAt: now + 10 }, now);

      expect(disabled).toBeUndefined();
      expect(await admitted(begun)).toBeUndefined();
    });
  });
});
