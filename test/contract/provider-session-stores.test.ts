import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { updateProvider } from '#server/db/identity-providers';
import { linkMember, unlinkMember } from '#server/db/member-identities';
import { insertOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import { linkIdentity, unlinkIdentities } from '#server/db/identities';
import {
  claimCheck,
  deleteCheck,
  deleteChecks,
  insertCheck,
  listDueChecks,
  noteCheckFailed,
  noteCheckPassed,
  postponeCheck,
  renewChecks,
  summarizeChecks,
} from '#server/db/provider-checks';
import {
  endSessionsAt,
  hasSessionAt,
  insertLogout,
  isLoggedOutSince,
  isSignInOpen,
  placeKey,
  type SignInPlace,
} from '#server/db/provider-sessions';
import { insertSession, useSession } from '#server/db/sessions';
import { transaction } from '#server/db/transaction';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { insertSomeProvider } from '#support/some-provider';

const now = 1_800_000_000;

await onEachDatabase('sessions of identity providers', ({ open }) => {
  let stores: TestDatabase;
  /** Dana and Lee are linked at the provider of an organization, and at that of the installation. */
  let own: Extract<SignInPlace, { type: 'organization' }>;
  let installation: Extract<SignInPlace, { type: 'installation' }>;
  let dana: string;
  let lee: string;
  beforeAll(async () => {
    stores = await open();
  });
  afterAll(() => stores[Symbol.asyncDispose]());
  beforeEach(async () => {
    const organizationId = `org_${randomUUID()}`;
    const providerId = `idp_${randomUUID()}`;
    own = { type: 'organization', organizationId, providerId };
    installation = { type: 'installation', issuer: `https://${randomUUID()}.example` };
    const { db } = stores;
    const name = organizationId.replace('_', '-');
    await insertOrganization(db, { id: organizationId, name, createdAt: now });
    await insertSomeProvider(db, { id: providerId, organizationId });
    [dana, lee] = [`user_${randomUUID()}`, `user_${randomUUID()}`];
    for (const [userId, subject] of [
      [dana, 'dana there'],
      [lee, 'lee there'],
    ] as const) {
      const user = { id: userId, email: `${userId}@example.com`, createdAt: now };
      await insertUser(db, user, { organizationId, role: 'member' });
      await linkMember(db, { providerId, subject }, { organizationId, userId }, now);
      await linkIdentity(db, { issuer: installation.issuer, subject, userId });
    }
  });

  const places = () => [own, installation] as const;
  const session = async (place: SignInPlace, userId: string, providerSession?: string) => {
    const tokenHash = randomUUID();
    await insertSession(stores.db, {
      id: `session_${randomUUID()}`,
      userId,
      address: '127.0.0.1',
      userAgent: 'test',
      createdAt: now,
      usedAt: now,
      expiresAt: now + 3600,
      factors: 1,
      tokenHash,
      ...(place.type === 'organization'
        ? { through: { ...place, providerSession, amr: [] } }
        : { installation: { issuer: place.issuer, providerSession } }),
    });
    return async () => (await useSession(stores.db, tokenHash, now)) !== undefined;
  };
  const logout = (place: SignInPlace, but: object = {}) =>
    transaction(stores.db, (tx) =>
      insertLogout(
        tx,
        place,
        { tokenId: randomUUID(), issuedAt: now, expiresAt: now + 60, ...but },
        now,
      ),
    );
  const isOpen = (place: SignInPlace, but: object = {}, userId = dana) =>
    transaction(stores.db, (tx) =>
      isSignInOpen(tx, userId, { place, subject: 'dana there', issuedAt: now, ...but }),
    );

  test('session: one of the installation says so, and where it comes from', async () => {
    const tokenHash = randomUUID();
    const made = {
      id: `session_${randomUUID()}`,
      userId: dana,
      address: '127.0.0.1',
      userAgent: 'test',
      createdAt: now,
      usedAt: now,
      expiresAt: now + 3600,
      factors: 2,
      installation: { issuer: installation.issuer, providerSession: 's' },
    } as const;
    await insertSession(stores.db, { ...made, tokenHash });

    expect(await useSession(stores.db, tokenHash, now)).toEqual({ ...made, through: undefined });
  });

  test('172: logout: a token counts once at its provider, until it has expired', async () => {
    const tokenId = randomUUID();

    expect(await logout(own, { tokenId })).toBe(true);
    expect(await logout(own, { tokenId })).toBe(false);
    expect(await logout(installation, { tokenId })).toBe(true);
    expect(
      await transaction(stores.db, (tx) =>
        insertLogout(tx, own, { tokenId, issuedAt: now, expiresAt: now + 60 }, now + 3720),
      ),
    ).toBe(true);
  });

  test('assertion: one that was issued before its person was logged out counts for nothing, as long as it may live', async () => {
    const subject = 'dana there';
    const isOut = (issuedAt: number, providerId = own.providerId) =>
      transaction(stores.db, (tx) => isLoggedOutSince(tx, { providerId, subject }, issuedAt));
    await logout(own, { subject: 'lee there' });
    await logout(own, { subject, providerSession: 's' });
    await logout(installation, { subject });
    const before = await isOut(now);
    await logout(own, { subject });
    // Recording a logout deletes the logouts that have expired.
    await transaction(stores.db, (tx) =>
      insertLogout(
        tx,
        installation,
        { tokenId: randomUUID(), issuedAt: now, expiresAt: now },
        now + 3719,
      ),
    );

    expect(before).toBe(false);
    expect([await isOut(now - 1), await isOut(now), await isOut(now + 1)]).toEqual([
      true,
      true,
      false,
    ]);
    expect(await isOut(now, 'idp_other')).toBe(false);
  });

  test('172: logout: of two that arrive at the same moment, one counts', async () => {
    const tokenId = randomUUID();
    const both = await Promise.all([logout(own, { tokenId }), logout(own, { tokenId })]);

    expect(both.toSorted()).toEqual([false, true]);
  });

  test('logout: ends one session, or all of a person, of one provider alone', async () => {
    for (const place of places()) {
      const [one, two] = [await session(place, dana, 'a'), await session(place, dana, 'b')];
      const theirs = await session(place, lee, 'c');
      const elsewhere = await session(place === own ? installation : own, dana, 'a');
      const first = await endSessionsAt(stores.db, place, { providerSession: 'a' });
      const states = [await one(), await two(), await theirs(), await elsewhere()];
      const foreign = await endSessionsAt(stores.db, place, { providerSession: 'c', userId: dana });
      const before = await hasSessionAt(stores.db, place, dana, now);
      const all = await endSessionsAt(stores.db, place, { userId: dana });

      expect([...first, ...all]).toEqual([dana, dana]);
      expect([...foreign]).toEqual([]);
      expect(states).toEqual([false, true, true, true]);
      expect([await two(), await theirs(), await elsewhere()]).toEqual([false, true, true]);
      expect([before, await hasSessionAt(stores.db, place, dana, now)]).toEqual([true, false]);
      await endSessionsAt(stores.db, place === own ? installation : own, { userId: dana });
    }
  });

  test('sign-in: opens nothing once it was logged out, while the callback was on its way', async () => {
    for (const place of places()) {
      const before = await isOpen(place, { providerSession: 's' });
      await logout(place, { providerSession: 's' });
      const sameSession = await isOpen(place, { providerSession: 's' });
      const otherSession = await isOpen(place, { providerSession: 't' });
      await logout(place, { subject: 'lee there', issuedAt: now + 5 });
      const otherPerson = await isOpen(place);
      await logout(place, { subject: 'dana there', issuedAt: now + 5 });

      expect([before, sameSession, otherSession, otherPerson]).toEqual([true, false, true, true]);
      expect(await isOpen(place, { issuedAt: now + 5 })).toBe(false);
      expect(await isOpen(place, { issuedAt: now + 6 })).toBe(true);
    }
  });

  test('sign-in: opens nothing for an account that was unlinked, that is linked to another person, or of a disabled provider', async () => {
    const ofLee = [await isOpen(own, {}, lee), await isOpen(installation, {}, lee)];
    await updateProvider(stores.db, own.organizationId, own.providerId, { disabledAt: now });
    const disabled = await isOpen(own);
    await updateProvider(stores.db, own.organizationId, own.providerId, { disabledAt: undefined });
    const enabled = await isOpen(own);
    await unlinkMember(stores.db, own.organizationId, own.providerId, dana);
    await unlinkIdentities(stores.db, dana);

    expect(ofLee).toEqual([false, false]);
    expect([disabled, enabled]).toEqual([false, true]);
    expect([await isOpen(own), await isOpen(installation)]).toEqual([false, false]);
  });

  test('sign-in: unlinking at the same moment leaves no session', async () => {
    const opening = async () =>
      transaction(stores.db, async (tx) => {
        const sign = { place: own, subject: 'dana there', issuedAt: now };
        if (!(await isSignInOpen(tx, dana, sign))) return;
        await insertSession(tx, {
          id: `session_${randomUUID()}`,
          userId: dana,
          address: '',
          userAgent: '',
          createdAt: now,
          usedAt: now,
          expiresAt: now + 3600,
          factors: 1,
          tokenHash: randomUUID(),
          through: { ...own, amr: [] },
        });
      });
    await Promise.all([
      opening(),
      unlinkMember(stores.db, own.organizationId, own.providerId, dana),
      opening(),
    ]);

    expect(await hasSessionAt(stores.db, own, dana, now)).toBe(false);
  });

  describe('checks', () => {
    const store = (place: SignInPlace, sealedToken = 'sealed', subject = 'dana there') =>
      insertCheck(stores.db, { place, subject, sealedToken }, { now, nextAt: now + 60 });
    const due = async (place: SignInPlace, at = now + 60) =>
      (await listDueChecks(stores.db, { now: at, except: [], share: 1000, limit: 1000 })).filter(
        (check) => placeKey(check.place) === placeKey(place),
      );
    const only = async (place: SignInPlace, at?: number) => {
      const [check] = await due(place, at);
      if (!check) throw new Error('nothing is due');
      return check;
    };
    const times = { now: now + 60, until: now + 120 };

    test('are due when their time has come, and not while their provider is left alone or disabled', async () => {
      await store(own);
      await store(installation);
      const early = [...(await due(own, now + 59)), ...(await due(installation, now + 59))];
      const left = { now: now + 60, except: [own.providerId], share: 1000, limit: 1000 };
      const others = await listDueChecks(stores.db, left);

      expect(early).toEqual([]);
      expect(await due(own)).toEqual([
        {
          place: own,
          subject: 'dana there',
          sealedToken: 'sealed',
          version: 0,
          checkedAt: now,
          attempts: 0,
        },
      ]);
      expect(await due(installation)).toMatchObject([{ place: installation }]);
      expect(others.map(({ place }) => placeKey(place))).not.toContain(own.providerId);
      await updateProvider(stores.db, own.organizationId, own.providerId, { disabledAt: now });
      expect(await due(own)).toEqual([]);
    });

    test('173: of one provider are at most its share, and each provider has its turn', async () => {
      await store(own);
      await store(own, 'sealed', 'lee there');
      await store(installation);
      await postponeCheck(stores.db, await only(installation), now + 60);
      const ours = new Set(places().map(placeKey));
      const keys = async (share: number) =>
        (await listDueChecks(stores.db, { now: now + 60, except: [], share, limit: 1000 }))
          .map(({ place }) => placeKey(place))
          .filter((key) => ours.has(key));
      const single = (await keys(1)).toSorted();
      const both = await keys(2);

      expect(single).toEqual([...ours].toSorted());
      expect(both.slice(0, 2).toSorted()).toEqual(single);
      expect(both.slice(2)).toEqual([own.providerId]);
    });

    test('173: are claimed by one process, and the token of a sign-in meanwhile stays', async () => {
      await store(own);
      const check = await only(own);
      const claims = await Promise.all([
        claimCheck(stores.db, check, times),
        claimCheck(stores.db, check, times),
      ]);
      const whileClaimed = await due(own);
      await store(own, 'of a new sign-in');
      await noteCheckPassed(stores.db, check, { sealedToken: 'late', now, nextAt: now + 60 });

      expect(claims.toSorted()).toEqual([false, true]);
      expect(whileClaimed).toEqual([]);
      expect(await deleteCheck(stores.db, check)).toBe(false);
      expect(await due(own)).toMatchObject([{ sealedToken: 'of a new sign-in', version: 1 }]);
    });

    test('pass with another token, or the same one', async () => {
      await store(own);
      const passed = { now: now + 60, nextAt: now + 120 };
      await noteCheckPassed(stores.db, await only(own), { ...passed, sealedToken: 'next' });
      const next = await only(own, now + 120);
      await noteCheckPassed(stores.db, next, { ...passed, sealedToken: undefined });

      expect(next).toMatchObject({ sealedToken: 'next', version: 1, checkedAt: now + 60 });
      expect(await only(own, now + 120)).toMatchObject({ sealedToken: 'next', version: 2 });
    });

    test('that fail say since when and why, until one passes', async () => {
      await store(own);
      await store(own, 'sealed', 'lee there');
      const [one] = await due(own);
      if (!one) throw new Error('nothing is due');
      const failed = { now: now + 60, nextAt: now + 90 };
      await noteCheckFailed(stores.db, one, { failure: 'unreachable', ...failed });
      const again = { failure: 'client-refused', now: now + 90, nextAt: now + 150 };
      await noteCheckFailed(stores.db, one, again);
      const during = await summarizeChecks(stores.db, own.providerId);
      const late = (await due(own, now + 150)).find(({ subject }) => subject === one.subject);
      await noteCheckPassed(stores.db, one, { ...failed, sealedToken: undefined });

      expect(during).toEqual({
        people: 2,
        failing: 1,
        failingSince: now + 60,
        failure: 'client-refused',
      });
      expect(late?.attempts).toBe(2);
      expect(await summarizeChecks(stores.db, own.providerId)).toEqual({
        people: 2,
        failing: 0,
        failingSince: undefined,
        failure: undefined,
      });
    });

    test('can be postponed, renewed and deleted for a whole provider', async () => {
      await store(own);
      await postponeCheck(stores.db, await only(own), now + 600);
      const postponed = await due(own);
      await renewChecks(stores.db, own.providerId);
      const renewed = await due(own);
      await deleteChecks(stores.db, own.providerId);

      expect([postponed.length, renewed.length]).toEqual([0, 1]);
      expect(await due(own, now + 600)).toEqual([]);
    });

    test('end with the link of the account', async () => {
      await store(own);
      await store(installation);
      await unlinkMember(stores.db, own.organizationId, own.providerId, dana);
      await unlinkIdentities(stores.db, dana);

      expect([...(await due(own)), ...(await due(installation))]).toEqual([]);
      await expect(store(own)).rejects.toThrow(/foreign key/i);
    });
  });
});
