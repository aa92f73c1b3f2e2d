import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { Scope } from '#server/credentials/scope';
import type { AdmissionStore } from '#server/gateway/admission';
import type { OpenStores } from '#server/stores';

const now = 1_800_000_000;
const scopes: Scope[] = ['mcp:tools:read', 'mcp:server:manage'];
const shown = { serverId: 'srv_1', scopes };

type Opened = OpenStores & AsyncDisposable & { readonly admissions: AdmissionStore };

/** What every database has to do for grants, whichever it is. */
export function grantStoresContract(name: string, open: () => Promise<Opened>): void {
  describe(name, () => {
    let stores: Opened;
    beforeAll(async () => {
      stores = await open();
      await stores.organizations.add({ id: 'org_1', name: 'acme', createdAt: now });
      await stores.organizations.addServer({
        id: 'srv_1',
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
      await stores.users.add(user, { organizationId: 'org_1', role: 'admin' });
      return id;
    };
    const client = async (serverId: string | undefined = 'srv_1') => {
      const id = `client_${randomUUID()}`;
      const none = { jwks: undefined, secretHash: undefined, secretHint: undefined };
      const made = { id, name: 'Claude', serverId, scopes, redirectUris: [], createdAt: now };
      await stores.clients.add({ ...made, ...none });
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
        redirectUri: 'https://app.example/cb',
        codeChallenge: 'challenge',
        expiresAt: now + 60,
      };
      await stores.codes.add(made, now);
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
        redirectHost: 'app.example',
        authenticated: true,
        createdAt: now,
        expiresAt: now + 5000,
      };
      const isFirst = await stores.grants.begin(hash, begun, refreshToken);
      return { begun, isFirst, codeHash: hash, refreshToken };
    };
    const successor = () => ({ hash: randomUUID(), sealed: randomUUID(), expiresAt: now + 2000 });

    test('a code is read as it was kept, with the path of its server', async () => {
      const made = await code();

      expect(await stores.codes.byHash(made.hash)).toEqual({
        ...made,
        serverPath: 'acme/sales',
        spentAt: undefined,
      });
      expect(await stores.codes.byHash('unknown')).toBeUndefined();
    });

    test('a code begins its grant once', async () => {
      const { begun, isFirst, codeHash, refreshToken } = await grant();
      const again = { hash: randomUUID(), expiresAt: now };

      expect(isFirst).toBe(true);
      expect(await stores.grants.begin(codeHash, { ...begun, id: 'grant_x' }, again)).toBe(false);
      expect(await stores.codes.byHash(codeHash)).toMatchObject({ spentAt: now });
      expect(await stores.refreshTokens.byHash(refreshToken.hash)).toMatchObject({
        expiresAt: refreshToken.expiresAt,
        spentAt: undefined,
        grant: {
          ...begun,
          clientName: 'Claude',
          serverPath: 'acme/sales',
        },
      });
      expect(await stores.refreshTokens.byHash(again.hash)).toBeUndefined();
    });

    test('a code that was spent for nothing begins no grant', async () => {
      const made = await code();
      await stores.codes.spend(made.hash, now + 1);
      await stores.codes.spend(made.hash, now + 2);

      expect(await stores.codes.byHash(made.hash)).toMatchObject({ spentAt: now + 1 });
    });

    test('a grant ends once, and is listed until then', async () => {
      const { begun } = await grant();
      const listed = await stores.grants.list(begun.userId, now);

      expect(listed.map(({ id }) => id)).toEqual([begun.id]);
      expect(await stores.grants.list(begun.userId, begun.expiresAt)).toEqual([]);
      expect(await stores.grants.revoke(begun.id, now + 1)).toBe(true);
      expect(await stores.grants.revoke(begun.id, now + 2)).toBe(false);
      expect(await stores.grants.list(begun.userId, now)).toEqual([]);
      expect(await stores.grants.byId(begun.id)).toMatchObject({ revokedAt: now + 1 });
    });

    test('a grant keeps when it was last used', async () => {
      const { begun } = await grant();
      await stores.usage.record([{ type: 'grant', id: begun.id, usedAt: now + 10 }]);
      await stores.usage.record([{ type: 'grant', id: begun.id, usedAt: now + 5 }]);

      expect(await stores.grants.byId(begun.id)).toMatchObject({ lastUsedAt: now + 10 });
    });

    test('everything that a person granted ends at once', async () => {
      const { begun } = await grant();
      const { userId, clientId, serverId } = begun;
      const subject = { userId, clientId, serverId, redirectHost: 'app.example' };
      await stores.consents.remember(subject, scopes, now + 100);

      await stores.grants.revokeAll(userId, now);

      expect(await stores.grants.list(userId, now)).toEqual([]);
      expect(await stores.consents.allowed(subject, now)).toEqual([]);
    });

    test('of ten who spend a refresh token at once, one does, and all learn of its successor', async () => {
      const { refreshToken } = await grant();
      const brought = Array.from({ length: 10 }, successor);

      const all = await Promise.all(
        brought.map((next) => stores.refreshTokens.spend(refreshToken.hash, next, now)),
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
      expect(await stores.refreshTokens.byHash(winner?.hash ?? '')).toBeDefined();
    });

    test('what has expired is forgotten when a token of the same grant is spent', async () => {
      const { refreshToken } = await grant();
      const [second, third] = [successor(), successor()];
      await stores.refreshTokens.spend(refreshToken.hash, second, now);
      await stores.refreshTokens.spend(second.hash, third, refreshToken.expiresAt + 1);

      expect(await stores.refreshTokens.byHash(refreshToken.hash)).toBeUndefined();
      expect(await stores.refreshTokens.byHash(second.hash)).toBeDefined();
      expect(await stores.refreshTokens.byHash(third.hash)).toBeDefined();
    });

    test('a successor that was used is said to be', async () => {
      const { refreshToken } = await grant();
      const second = successor();
      await stores.refreshTokens.spend(refreshToken.hash, second, now);
      await stores.refreshTokens.spend(second.hash, successor(), now + 1);

      expect(
        await stores.refreshTokens.spend(refreshToken.hash, successor(), now + 2),
      ).toMatchObject({ outcome: 'spent-before', successorUsed: true });
    });

    test('a refresh token of a disabled server is not found', async () => {
      const { refreshToken } = await grant();
      const disable = (at: number | null) =>
        stores.db.updateTable('mcp_server').set({ disabled_at: at }).execute();
      await disable(now);
      const found = await stores.refreshTokens.byHash(refreshToken.hash);
      await disable(null);

      expect(found).toBeUndefined();
      expect(await stores.refreshTokens.byHash(refreshToken.hash)).toBeDefined();
    });

    test('a grant of a client that registered itself opens nothing while the organization is closed', async () => {
      const registered = `client_${randomUUID()}`;
      const none = { jwks: undefined, secretHash: undefined, secretHint: undefined };
      const said = { name: 'Self', serverId: undefined, scopes, redirectUris: [], createdAt: now };
      await stores.clients.add({ ...said, ...none, id: registered });
      const grants = [await grant(registered), await grant()];
      const all = () =>
        Promise.all(
          grants.map(async ({ begun: { id, userId, clientId } }) => {
            const at = { organization: 'acme', server: 'sales', clientId, grant: { id, userId } };
            return (await stores.admissions.byClient(at)) !== undefined;
          }),
        );
      const before = await all();

      await stores.settings.update('org_1', { openClientsAllowed: false });
      const closed = await all();
      await stores.settings.update('org_1', { openClientsAllowed: true });

      expect([before, closed, await all()]).toEqual([
        [true, true],
        [false, true],
        [true, true],
      ]);
    });

    test('clients that made themselves are forgotten when nobody wants them for thirty days', async () => {
      const month = 30 * 24 * 3600;
      const url = () => `https://client.example/${randomUUID()}`;
      const made = async (id: string) => {
        const none = { jwks: undefined, secretHash: undefined, secretHint: undefined };
        const said = { id, name: 'Self', serverId: undefined, scopes, redirectUris: [] };
        await stores.clients.add({ ...said, ...none, createdAt: now });
        return id;
      };
      const put = async (id: string, at: number) => {
        await stores.documents.put({ id, name: 'D', redirectUris: [], jwks: undefined }, at);
        return id;
      };
      const idle = [await made(`client_${randomUUID()}`), await put(url(), now)];
      const [used, allowed, revoked] = [await made('c_1'), await made('c_2'), await made('c_3')];
      const read = await put(url(), now);
      const chosen = await client();
      await stores.usage.record([{ type: 'client', id: used, usedAt: now + 10 }]);
      const subject = { userId: await person(), clientId: allowed, serverId: 'srv_1' };
      await stores.consents.remember({ ...subject, redirectHost: 'h' }, scopes, now + 2 * month);
      await stores.clients.revoke(revoked, now);
      await put(read, now + 10);

      await put(url(), now + month + 1);

      const known = async (id: string) => (await stores.clients.byId(id)) !== undefined;
      expect(await Promise.all(idle.map(known))).toEqual([false, false]);
      const kept = await Promise.all([used, allowed, revoked, read, chosen].map(known));
      expect(kept).toEqual([true, true, true, true, true]);
    });

    test('of one session, the twenty latest questions wait', async () => {
      const request = {
        clientId: await client(),
        clientName: 'Claude',
        isSelfRegistered: false,
        serverPath: 'acme/sales',
        scopes,
        redirectUri: 'https://app.example/cb',
        state: undefined,
        codeChallenge: 'challenge',
      };
      const userId = await person();
      const add = async (sessionId: string, index: number) => {
        const pending = { idHash: randomUUID(), sessionId, userId, request, shown };
        await stores.pendingRequests.add({ ...pending, expiresAt: now + 100 + index }, now);
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

    test('48: who leaves an organization and comes back finds nothing that they allowed there', async () => {
      const { begun, refreshToken } = await grant();
      const { userId, clientId, serverId } = begun;
      const subject = { userId, clientId, serverId, redirectHost: 'app.example' };
      await stores.consents.remember(subject, scopes, now + 100);
      const unredeemed = { ...(await code()), hash: randomUUID(), grantId: randomUUID(), userId };
      await stores.codes.add(unredeemed, now);
      const other = await grant();

      await stores.db.deleteFrom('membership').where('person_id', '=', userId).execute();
      const user = { id: userId, email: `${userId}@example.com`, createdAt: now };
      await stores.users.add(user, { organizationId: 'org_1', role: 'admin' });

      expect(await stores.grants.byId(begun.id)).toBeUndefined();
      expect(await stores.refreshTokens.byHash(refreshToken.hash)).toBeUndefined();
      expect(await stores.codes.byHash(unredeemed.hash)).toBeUndefined();
      expect(await stores.consents.allowed(subject, now)).toEqual([]);
      expect(await stores.grants.byId(other.begun.id)).toBeDefined();
    });

    test('48: withdrawing takes the codes along that were not redeemed, of that application only', async () => {
      const [mine, other] = [await code(), await code()];
      await stores.consents.forget(mine);

      expect(await stores.codes.byHash(mine.hash)).toBeUndefined();
      expect(await stores.codes.byHash(other.hash)).toBeDefined();
    });

    test('48: withdrawing leaves a redeemed code, which is known when it comes again', async () => {
      const { begun, codeHash } = await grant();
      await stores.consents.forget(begun);

      expect(await stores.codes.byHash(codeHash)).toMatchObject({ spentAt: now });
    });

    test('a consent is for exactly what was allowed, until it ends or is forgotten', async () => {
      const subject = {
        userId: await person(),
        clientId: await client(),
        serverId: 'srv_1',
        redirectHost: 'app.example',
      };
      await stores.consents.remember(subject, ['mcp:tools:read'], now + 10);
      await stores.consents.remember(subject, scopes, now + 100);

      expect(await stores.consents.allowed(subject, now + 99)).toEqual(scopes);
      expect(await stores.consents.allowed(subject, now + 100)).toEqual([]);
      expect(await stores.consents.allowed({ ...subject, redirectHost: 'x' }, now)).toEqual([]);
      await stores.consents.forget(subject);
      expect(await stores.consents.allowed(subject, now)).toEqual([]);
    });

    test('a pending request is taken once, by its session, in time', async () => {
      const request = {
        clientId: await client(),
        clientName: 'Claude',
        isSelfRegistered: false,
        serverPath: 'acme/sales',
        scopes,
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
      await stores.pendingRequests.add(pending, now);
      await stores.pendingRequests.add({ ...pending, idHash: late }, now);
      const take = (hash: string, session: string, at = now) =>
        stores.pendingRequests.take(hash, session, at);

      expect(await take(idHash, 'session_2')).toBeUndefined();
      expect(await take(idHash, 'session_1')).toEqual(pending);
      expect(await take(idHash, 'session_1')).toBeUndefined();
      expect(await take(late, 'session_1', now + 10)).toBeUndefined();
    });

    test('an assertion is used once by its client, and forgotten when it has expired', async () => {
      const [one, two] = [await client(), await client()];
      const use = (clientId: string, at = now) =>
        stores.assertions.use({ clientId, jti: 'jti', expiresAt: now + 10 }, at);

      expect(await use(one)).toBe(true);
      expect(await use(one)).toBe(false);
      expect(await use(two)).toBe(true);
      expect(await use(one, now + 11)).toBe(true);
    });

    test('a document replaces what it said before, and a revoked client stays revoked', async () => {
      const id = `https://client.example/${randomUUID()}`;
      const said = { id, name: 'One', redirectUris: ['https://a.example/'], jwks: undefined };
      await stores.documents.put(said, now);
      await stores.clients.revoke(id, now + 1);
      await stores.documents.put({ ...said, name: 'Two' }, now + 2);

      expect(await stores.documents.byUrl(id)).toMatchObject({
        fetchedAt: now + 2,
        client: { id, name: 'Two', serverId: undefined, serverPath: undefined, revokedAt: now + 1 },
      });
      expect(await stores.documents.byUrl(await client())).toBeUndefined();
    });

    describe('a granted token is let in', () => {
      const admitted = async (
        begun: { id: string; userId: string; clientId: string },
        but: { userId?: string; server?: string; clientId?: string } = {},
      ) => {
        const { userId = begun.userId, server = 'sales', clientId = begun.clientId } = but;
        const place = { organization: 'acme', server, clientId, tokenId: 'jti' };
        return stores.admissions.byClient({ ...place, grant: { id: begun.id, userId } });
      };

      test('with the scopes that client and role may have now', async () => {
        const { begun } = await grant();
        const before = await admitted(begun);
        await stores.db
          .updateTable('membership')
          .set({ role: 'member' })
          .where('person_id', '=', begun.userId)
          .execute();

        expect(before?.scopes).toEqual(scopes);
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

      test('only while its person is in a group of the server, where that has groups', async () => {
        const { begun } = await grant();
        const groupId = `group_${randomUUID()}`;
        const sales = { id: groupId, organizationId: 'org_1', name: groupId, createdAt: now };
        const ofPerson = { organization: 'acme', server: 'sales', userId: begun.userId };
        const both = async () => [
          (await admitted(begun)) !== undefined,
          (await stores.admissions.byPerson(ofPerson)) !== undefined,
        ];
        await stores.groups.add(sales);
        await stores.groupMembers.add('org_1', groupId, begun.userId);
        await stores.serverGroups.set('srv_1', [groupId]);

        const inside = await both();
        await stores.groupMembers.remove('org_1', groupId, begun.userId);
        const outside = await both();
        await stores.serverGroups.set('srv_1', []);

        expect(inside).toEqual([true, true]);
        expect(outside).toEqual([false, false]);
        expect(await both()).toEqual([true, true]);
      });

      test.each<
        [string, (of: { id: string; userId: string; clientId: string }) => Promise<unknown>]
      >([
        ['its grant', ({ id }) => stores.grants.revoke(id, now)],
        ['its client', ({ clientId }) => stores.clients.revoke(clientId, now)],
        ['its person', ({ userId }) => stores.users.remove(userId)],
        [
          'the membership',
          ({ userId }) =>
            stores.db.deleteFrom('membership').where('person_id', '=', userId).execute(),
        ],
      ])('no longer once %s is gone', async (_, end) => {
        const { begun } = await grant();
        expect(await admitted(begun)).toBeDefined();

        await end(begun);

        expect(await admitted(begun)).toBeUndefined();
      });

      test('no longer once it was revoked itself, or its organization is disabled', async () => {
        const { begun } = await grant();
        await stores.db.updateTable('organization').set({ disabled_at: now }).execute();
        const disabled = await admitted(begun);
        await stores.db.updateTable('organization').set({ disabled_at: null }).execute();
        await stores.revokedTokens.revoke({ id: 'jti', expiresAt: now + 10 }, now);

        expect(disabled).toBeUndefined();
        expect(await admitted(begun)).toBeUndefined();
      });
    });
  });
}
