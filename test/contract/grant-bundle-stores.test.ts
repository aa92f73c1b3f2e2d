import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { insertClient } from '#server/db/clients';
import { deleteConsents, takePendingRequest } from '#server/db/consents';
import {
  beginBundle,
  findBundle,
  findBundleCode,
  findBundleOfGrant,
  findBundleToken,
  insertBundleCode,
  insertPendingBundle,
  listBundledGrants,
  revokeBundle,
  takePendingBundle,
} from '#server/db/grant-bundles';
import { findGrant, findRefreshToken, revokeGrant, spendRefreshToken } from '#server/db/grants';
import { insertOrganization } from '#server/db/organizations';
import { insertUser, removeMember } from '#server/db/people';
import { revokeGrantsOfPerson } from '#server/db/person-grants';
import { insertServer } from '#server/db/servers';
import { onEachDatabase, type TestDatabase } from '#support/databases';

const now = 1_800_000_000;
const scopes = ['mcp:tools:read'] as const;

await onEachDatabase('grant bundles', ({ open }) => {
  let stores: TestDatabase;
  beforeAll(async () => {
    stores = await open();
    for (const organization of ['acme', 'other']) {
      const organizationId = `org_${organization}`;
      await insertOrganization(stores.db, {
        id: organizationId,
        name: organization,
        createdAt: now,
      });
      for (const name of ['one', 'two']) {
        const ids = {
          id: `srv_${organization}_${name}`,
          targetId: `target_${organization}_${name}`,
        };
        const made = { ...ids, organizationId, name, upstream: { kind: 'demo' } as const };
        await insertServer(stores.db, { ...made, createdAt: now });
      }
    }
  });
  afterAll(() => stores[Symbol.asyncDispose]());

  const all = ['srv_acme_one', 'srv_acme_two', 'srv_other_one'];

  /** A person of both organizations, a client, and a code for these servers. */
  async function issued(serverIds: readonly string[] = all) {
    const id = `user_${randomUUID()}`;
    const user = { id, email: `${id}@example.com`, createdAt: now };
    await insertUser(stores.db, user, { organizationId: 'org_acme', role: 'member' });
    const other = { person_id: id, organization_id: 'org_other', role: 'member' };
    await stores.db.insertInto('membership').values(other).execute();
    const clientId = `client_${randomUUID()}`;
    const none = { jwks: undefined, secretHash: undefined, secretHint: undefined };
    const made = { id: clientId, name: 'Claude', serverId: undefined, redirectUris: [] };
    await insertClient(stores.db, { ...made, scopes: [...scopes], createdAt: now, ...none });
    const tools = { type: 'read-only' } as const;
    const code = {
      hash: randomUUID(),
      bundleId: `bundle_${randomUUID()}`,
      userId: id,
      clientId,
      listsServers: true,
      redirectUri: 'http://127.0.0.1:1/callback',
      codeChallenge: 'c'.repeat(43),
      assistant: 'Cursor',
      expiresAt: now + 60,
    };
    const parts = serverIds.map((serverId) => {
      return { grantId: `grant_${randomUUID()}`, serverId, scopes: [...scopes], tools };
    });
    await insertBundleCode(stores.db, code, parts, now);
    const begin = async () => {
      const bundle = {
        id: code.bundleId,
        userId: id,
        clientId,
        listsServers: true,
        authenticated: false,
        expiresAt: now + 1000,
        revokedAt: undefined,
      };
      const grants = parts.map(({ grantId, serverId }) => ({
        id: grantId,
        tools,
        userId: id,
        clientId,
        serverId,
        scopes: [...scopes],
        redirectHost: '127.0.0.1',
        assistant: 'Cursor',
        authenticated: false,
        createdAt: now,
        expiresAt: now + 1000,
      }));
      const token = { hash: `token of ${code.hash}`, createdAt: now, expiresAt: now + 500 };
      return beginBundle(stores.db, code.hash, bundle, grants, token);
    };
    return { code, parts, userId: id, clientId, begin, tokenHash: `token of ${code.hash}` };
  }

  const openPaths = async (bundleId: string) =>
    (await listBundledGrants(stores.db, bundleId)).map(({ serverPath }) => serverPath);

  test('a code is redeemed once, by the first of many', async () => {
    const { code, parts, begin } = await issued();
    const found = await findBundleCode(stores.db, code.hash);
    const results = await Promise.all(Array.from({ length: 8 }, begin));

    expect(found).toMatchObject({ bundleId: code.bundleId, redeemedAt: undefined });
    expect(found?.parts.map(({ serverPath }) => serverPath)).toEqual([
      'acme/one',
      'acme/two',
      'other/one',
    ]);
    const begun = results.filter((ids) => ids !== undefined);
    expect(begun.length).toBe(1);
    expect(begun[0]?.toSorted()).toEqual(parts.map(({ grantId }) => grantId).toSorted());
    expect(await openPaths(code.bundleId)).toEqual(['acme/one', 'acme/two', 'other/one']);
    expect((await findBundleCode(stores.db, code.hash))?.redeemedAt).toBe(now);
  });

  test('a bundle does not exist before its code is redeemed', async () => {
    const { code, begin } = await issued();
    const before = await findBundle(stores.db, code.bundleId);
    await begin();

    expect(before).toBeUndefined();
    expect(await findBundle(stores.db, code.bundleId)).toMatchObject({ expiresAt: now + 1000 });
  });

  test('access that ended before a code was redeemed does not begin', async () => {
    const { code, userId, clientId, begin } = await issued();
    await revokeGrantsOfPerson(stores.db, userId, now, 'org_other');
    await deleteConsents(stores.db, { userId, clientId, serverId: 'srv_acme_two' });

    expect((await begin())?.length).toBe(1);
    expect(await openPaths(code.bundleId)).toEqual(['acme/one']);
  });

  test('a person who leaves an organization loses the grants there, in a code and in a bundle', async () => {
    const [unredeemed, redeemed] = [await issued(), await issued()];
    await redeemed.begin();
    for (const { userId } of [unredeemed, redeemed])
      await removeMember(stores.db, 'org_acme', userId, 'member');
    await unredeemed.begin();

    expect(await openPaths(unredeemed.code.bundleId)).toEqual(['other/one']);
    expect(await openPaths(redeemed.code.bundleId)).toEqual(['other/one']);
  });

  test('revoking one grant leaves the others, revoking the bundle none', async () => {
    const { code, parts, begin } = await issued();
    await begin();
    await revokeGrant(stores.db, parts[0]?.grantId ?? '', now);
    const afterOne = await openPaths(code.bundleId);
    const revoked = await revokeBundle(stores.db, code.bundleId, now);
    const again = await revokeBundle(stores.db, code.bundleId, now);

    expect(afterOne).toEqual(['acme/two', 'other/one']);
    expect(revoked?.map(({ organization }) => organization).toSorted()).toEqual(['acme', 'other']);
    expect(again).toBeUndefined();
    expect(await openPaths(code.bundleId)).toEqual([]);
    expect((await findGrant(stores.db, parts[1]?.grantId ?? ''))?.revokedAt).toBe(now);
  });

  test('a refresh token belongs to the bundle and is spent once', async () => {
    const { code, begin, tokenHash } = await issued();
    await begin();
    const successor = { hash: randomUUID(), sealed: 'sealed', expiresAt: now + 600 };
    const first = await spendRefreshToken(stores.db, tokenHash, successor, now);
    const other = { hash: randomUUID(), sealed: 'other', expiresAt: now + 600 };
    const second = await spendRefreshToken(stores.db, tokenHash, other, now + 1);

    expect(first.outcome).toBe('spent');
    expect(second).toEqual({
      outcome: 'spent-before',
      at: now,
      sealedSuccessor: 'sealed',
      successorUsed: false,
    });
    expect(await findRefreshToken(stores.db, successor.hash)).toBeUndefined();
    expect(await findBundleToken(stores.db, successor.hash)).toMatchObject({
      bundle: { id: code.bundleId },
      spentAt: undefined,
    });
  });

  test('a grant names its bundle, and one that stands alone none', async () => {
    const { code, parts, begin } = await issued();
    await begin();

    expect((await findBundleOfGrant(stores.db, parts[0]?.grantId ?? ''))?.id).toBe(code.bundleId);
    expect(await findBundleOfGrant(stores.db, 'grant_none')).toBeUndefined();
  });

  test('a request for several servers is taken once, as what it is and in its session', async () => {
    const { userId, clientId } = await issued();
    const idHash = randomUUID();
    const request = {
      clientId,
      clientName: 'Claude',
      isSelfRegistered: true,
      redirectUri: 'http://127.0.0.1:1/callback',
      state: undefined,
      serverPaths: ['acme/one'],
      listsServers: true,
      scopes: [...scopes],
      codeChallenge: 'c',
    };
    const shown = [{ serverId: 'srv_acme_one', serverPath: 'acme/one', scopes: [...scopes] }];
    const pending = { idHash, sessionId: 'session', userId, request, shown, expiresAt: now + 10 };
    await insertPendingBundle(stores.db, pending, now);
    const elsewhere = await takePendingBundle(stores.db, idHash, 'other', now);
    const asOther = await takePendingRequest(stores.db, idHash, 'session', now);
    const taken = await takePendingBundle(stores.db, idHash, 'session', now);

    expect([elsewhere, asOther]).toEqual([undefined, undefined]);
    expect(taken).toMatchObject({ request: { serverPaths: ['acme/one'] }, shown });
    expect(await takePendingBundle(stores.db, idHash, 'session', now)).toBeUndefined();
  });

  test('ending access of a person in any organization withdraws their open questions', async () => {
    const { userId, clientId } = await issued();
    const idHash = randomUUID();
    const request = {
      clientId,
      clientName: 'Claude',
      isSelfRegistered: true,
      redirectUri: 'http://127.0.0.1:1/callback',
      state: undefined,
      serverPaths: [],
      listsServers: true,
      scopes: [...scopes],
      codeChallenge: 'c',
    };
    const kept = { idHash, sessionId: 'session', userId, expiresAt: now + 10 };
    await insertPendingBundle(stores.db, { ...kept, request, shown: [] }, now);
    await revokeGrantsOfPerson(stores.db, userId, now, 'org_other');

    expect(await takePendingBundle(stores.db, idHash, 'session', now)).toBeUndefined();
  });
});
