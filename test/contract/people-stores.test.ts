import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertAuditEvent } from '#server/db/audit';
import { insertOrganization } from '#server/db/organizations';
import {
  insertUser,
  deleteUser,
  findUserByEmail,
  hasUsers,
  listMemberships,
  listUsers,
} from '#server/db/people';
import {
  findUserIdByIdentity,
  hasIdentity,
  linkIdentity,
  unlinkIdentities,
} from '#server/db/identities';
import {
  insertKnownBrowser,
  insertSession,
  endSession,
  endSessions,
  listPeopleOfBrowser,
  listSessions,
  useSession,
} from '#server/db/sessions';
import {
  insertPasskey,
  advancePasskey,
  deletePasskey,
  findPasskey,
  findPasswordHash,
  replacePasswordHash,
} from '#server/db/authenticators';
import {
  insertLink,
  findLink,
  markChallengeSpent,
  markChallengesSpentMeanwhile,
  takeLink,
} from '#server/db/one-time';
import { insertAttempt, clearAttempts } from '#server/db/failed-attempts';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { newestEvents } from '#support/newest-events';

const now = 1_800_000_000;
const week = 7 * 24 * 3600;

await onEachDatabase('people', ({ open }) => {
  let stores: TestDatabase;
  beforeAll(async () => {
    stores = await open();
    await insertOrganization(stores.db, { id: 'org_1', name: 'acme', createdAt: now });
    await insertOrganization(stores.db, { id: 'org_2', name: 'other', createdAt: now });
  });
  afterAll(() => stores[Symbol.asyncDispose]());

  const person = async () => {
    const id = `user_${randomUUID()}`;
    const user = { id, email: `${id}@example.com`, createdAt: now };
    await insertUser(stores.db, user, { organizationId: 'org_1', role: 'member' });
    return user;
  };
  const session = async (userId: string, tokenHash: string = randomUUID()) => {
    const made = { id: `ses_${randomUUID()}`, userId, address: '127.0.0.1', userAgent: 'test' };
    const factors = 1 as const;
    const times = { createdAt: now, usedAt: now, expiresAt: now + 30 * 24 * 3600 };
    await insertSession(stores.db, { ...made, ...times, factors, tokenHash });
    return { ...made, tokenHash };
  };

  test('person: found by address in any case, and may belong to two organizations', async () => {
    const user = await person();
    const again = { ...user, id: 'user_never', email: user.email.toUpperCase() };

    const second = await insertUser(stores.db, again, { organizationId: 'org_2', role: 'owner' });
    const third = await insertUser(stores.db, again, { organizationId: 'org_2', role: 'viewer' });

    expect([second, third]).toEqual([true, false]);
    expect(await findUserByEmail(stores.db, again.email)).toEqual(user);
    expect(await listMemberships(stores.db, user.id)).toEqual([
      { organizationId: 'org_1', organization: 'acme', title: '', role: 'member' },
      { organizationId: 'org_2', organization: 'other', title: '', role: 'owner' },
    ]);
  });

  test('person: everybody is listed with their roles, and an empty database is recognized', async () => {
    const fresh = await open();
    await using _ = fresh;
    const acme = { id: 'org_1', name: 'acme', title: 'Acme Corporation', createdAt: now };
    await insertOrganization(fresh.db, acme);
    await insertOrganization(fresh.db, { id: 'org_2', name: 'other', createdAt: now });
    expect(await hasUsers(fresh.db)).toBe(false);
    expect(await listUsers(fresh.db)).toEqual([]);

    const older = { id: 'user_b', email: 'b@example.com', createdAt: now };
    const newer = { id: 'user_a', email: 'a@example.com', createdAt: now + 1 };
    await insertUser(fresh.db, newer, { organizationId: 'org_1', role: 'viewer' });
    await insertUser(fresh.db, older, { organizationId: 'org_2', role: 'owner' });
    await insertUser(fresh.db, older, { organizationId: 'org_1', role: 'member' });

    expect(await hasUsers(fresh.db)).toBe(true);
    expect(await listUsers(fresh.db)).toEqual([
      {
        user: older,
        memberships: [
          {
            organizationId: 'org_1',
            organization: 'acme',
            title: 'Acme Corporation',
            role: 'member',
          },
          { organizationId: 'org_2', organization: 'other', title: '', role: 'owner' },
        ],
      },
      {
        user: newer,
        memberships: [
          {
            organizationId: 'org_1',
            organization: 'acme',
            title: 'Acme Corporation',
            role: 'viewer',
          },
        ],
      },
    ]);
  });

  test('person: removing one removes their sessions, password, passkeys and identities', async () => {
    const user = await person();
    const { tokenHash } = await session(user.id);
    await replacePasswordHash(stores.db, user.id, 'hash');
    await linkIdentity(stores.db, { issuer: 'https://idp', subject: user.id, userId: user.id });

    expect(await deleteUser(stores.db, user.id)).toBe(true);
    expect(await deleteUser(stores.db, user.id)).toBe(false);
    expect(await useSession(stores.db, tokenHash, now)).toBeUndefined();
    expect(await findPasswordHash(stores.db, user.id)).toBeUndefined();
    expect(await findUserIdByIdentity(stores.db, 'https://idp', user.id)).toBeUndefined();
  });

  test('password: a new one ends every session of that person, and no one else’s', async () => {
    const [one, two] = [await person(), await person()];
    const [mine, theirs] = [await session(one.id), await session(two.id)];

    await replacePasswordHash(stores.db, one.id, 'hash');

    expect(await useSession(stores.db, mine.tokenHash, now)).toBeUndefined();
    expect(await useSession(stores.db, theirs.tokenHash, now)).toMatchObject({ userId: two.id });
  });

  test('session: it expires a week after its last use and a month after its start', async () => {
    const user = await person();
    const { tokenHash } = await session(user.id);

    const used = [];
    for (const at of [week - 1, 2 * week - 2, 3 * week - 3, 4 * week - 4]) {
      used.push((await useSession(stores.db, tokenHash, now + at))?.usedAt);
    }

    expect(used.every(Boolean)).toBe(true);
    expect(await useSession(stores.db, tokenHash, now + 30 * 24 * 3600)).toBeUndefined();
    const idle = await session(user.id);
    expect(await useSession(stores.db, idle.tokenHash, now + week)).toBeUndefined();
  });

  test('session: only its own person can list and end it', async () => {
    const [one, two] = [await person(), await person()];
    const [first, second] = [await session(one.id), await session(one.id)];

    expect(await endSession(stores.db, two.id, first.id)).toBe(false);
    expect(await listSessions(stores.db, one.id, now)).toHaveLength(2);
    await endSessions(stores.db, one.id, second.id);
    expect((await listSessions(stores.db, one.id, now)).map(({ id }) => id)).toEqual([second.id]);
  });

  test('one-time link: of several uses the first succeeds', async () => {
    const hash = randomUUID();
    await insertLink(stores.db, hash, { type: 'set-up' }, now + 10);

    const peeked = await findLink(stores.db, hash, now);
    const taken = await Promise.all(
      Array.from({ length: 20 }, () => takeLink(stores.db, hash, now)),
    );

    expect(peeked).toEqual({ type: 'set-up' });
    expect(taken.filter(Boolean)).toEqual([{ type: 'set-up' }]);
  });

  test('one-time link: it expires, and a newer one for the same purpose replaces it', async () => {
    const user = await person();
    const [old, young] = [randomUUID(), randomUUID()];
    await insertLink(stores.db, old, { type: 'reset', userId: user.id }, now + 10);
    await insertLink(stores.db, young, { type: 'reset', userId: user.id }, now + 10);

    expect(await takeLink(stores.db, old, now)).toBeUndefined();
    expect(await takeLink(stores.db, young, now + 10)).toBeUndefined();
    expect(await takeLink(stores.db, young, now)).toEqual({ type: 'reset', userId: user.id });
  });

  test('passkey: of two uses with the same counter, exactly one is accepted', async () => {
    const user = await person();
    const passkey = { id: randomUUID(), userId: user.id, name: 'Key', publicKey: 'k' };
    const kept = { ...passkey, counter: 3, transports: ['usb'], createdAt: now };
    await insertPasskey(stores.db, { ...kept, lastUsedAt: undefined });

    const uses = await Promise.all([
      advancePasskey(stores.db, passkey.id, { from: 3, to: 4 }, now),
      advancePasskey(stores.db, passkey.id, { from: 3, to: 4 }, now),
    ]);

    expect(uses.sort()).toEqual([false, true]);
    expect(await findPasskey(stores.db, passkey.id)).toEqual({
      ...kept,
      counter: 4,
      lastUsedAt: now,
    });
    expect(await deletePasskey(stores.db, 'user_other', passkey.id)).toBe(false);
    expect(await deletePasskey(stores.db, user.id, passkey.id)).toBe(true);
  });

  /** Begins an attempt. Returns what `insertAttempt` reported about earlier attempts. */
  const begin = async (
    attempt: { subject: string; place: string; around?: string; at?: number },
    { since = now - 900, waitSeconds = 0 }: { since?: number; waitSeconds?: number } = {},
  ) => {
    let told: unknown;
    const windows = { subject: since, place: since };
    await insertAttempt(stores.db, { at: now, ...attempt }, windows, (earlier) => {
      const { atSubject, nearby } = earlier;
      told = { atSubject: Object.fromEntries(atSubject), nearby: Object.fromEntries(nearby) };
      return waitSeconds;
    });
    return told;
  };
  const nothing = { atSubject: {}, nearby: {} };

  test('sign-in attempts: concurrent attempts are counted one by one', async () => {
    const [subject, place] = [randomUUID(), randomUUID()];
    const attempt = async () => {
      let count: number | undefined;
      await insertAttempt(
        stores.db,
        { subject, place, at: now },
        { subject: now - 900, place: now - 900 },
        ({ nearby }) => {
          count = nearby.get(place)?.count ?? 0;
          return 0;
        },
      );
      return count ?? -1;
    };

    const counts = await Promise.all(Array.from({ length: 10 }, attempt));

    expect(counts.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  test('sign-in attempts: one that has to wait is not counted', async () => {
    const attempt = { subject: randomUUID(), place: randomUUID() };

    await begin(attempt, { waitSeconds: 2 });

    expect(await begin(attempt)).toEqual(nothing);
  });

  test('sign-in attempts: they are counted by subject and address, within the window', async () => {
    const [subject, place, other] = [randomUUID(), randomUUID(), randomUUID()];
    for (const at of [now, now, now + 5]) await begin({ subject, place, at });
    await begin({ subject, place: other, at: now + 7 });
    await begin({ subject: randomUUID(), place, at: now + 8 });
    const [early, late] = [
      await begin({ subject, place }, { waitSeconds: 1 }),
      await begin({ subject, place }, { since: now + 6, waitSeconds: 1 }),
    ];

    const fromOther = { count: 1, lastAt: now + 7 };
    expect(early).toEqual({
      atSubject: { [place]: { count: 3, lastAt: now + 5 }, [other]: fromOther },
      nearby: { [place]: { count: 4, lastAt: now + 8 } },
    });
    expect(late).toEqual({
      atSubject: { [other]: fromOther },
      nearby: { [place]: { count: 1, lastAt: now + 8 } },
    });
  });

  test('sign-in attempts: those from the network around an address are counted by address', async () => {
    const network = `network:${randomUUID()}`;
    const [one, two, beside] = [`${network}:1`, `${network}:2`, `${network}1:1`];
    for (const place of [one, two, two, beside]) await begin({ subject: randomUUID(), place });

    const at = { subject: randomUUID(), place: one };
    const told = await begin({ ...at, around: `${network}:` }, { waitSeconds: 1 });

    expect(told).toEqual({
      atSubject: {},
      nearby: { [one]: { count: 1, lastAt: now }, [two]: { count: 2, lastAt: now } },
    });
  });

  test('sign-in attempts: those of a subject are cleared for one address or for all', async () => {
    const [subject, place, other] = [randomUUID(), randomUUID(), randomUUID()];
    for (const where of [place, other]) await begin({ subject, place: where });
    await clearAttempts(stores.db, subject, place);
    const one = await begin({ subject, place }, { waitSeconds: 1 });
    await clearAttempts(stores.db, subject);

    expect(one).toEqual({ ...nothing, atSubject: { [other]: { count: 1, lastAt: now } } });
    expect(await begin({ subject, place: other })).toEqual(nothing);
  });

  test('sign-in attempts: they are stored for a day', async () => {
    const attempt = { subject: randomUUID(), place: randomUUID() };
    await begin(attempt);
    await begin({ ...attempt, subject: randomUUID(), at: now + 24 * 3600 + 1 });

    const told = await begin(attempt, { since: 0, waitSeconds: 1 });

    expect(told).toMatchObject({ atSubject: {}, nearby: { [attempt.place]: { count: 1 } } });
  });

  test('known browser: stored for a year, the latest twenty of each person', async () => {
    const [one, two] = [await person(), await person()];
    const shared = randomUUID();
    await insertKnownBrowser(stores.db, shared, one.id, now);
    await insertKnownBrowser(stores.db, shared, two.id, now + 1);
    const both = await listPeopleOfBrowser(stores.db, shared, 0);
    const others = Array.from({ length: 20 }, () => randomUUID());
    for (const other of others) await insertKnownBrowser(stores.db, other, one.id, now + 2);
    const left = await listPeopleOfBrowser(stores.db, shared, 0);
    await insertKnownBrowser(stores.db, shared, two.id, now + 9);
    const known = await Promise.all(
      others.map((other) => listPeopleOfBrowser(stores.db, other, now)),
    );
    await deleteUser(stores.db, two.id);

    expect(both.toSorted()).toEqual([one.id, two.id].toSorted());
    expect(left).toEqual([two.id]);
    expect(known).toEqual(others.map(() => [one.id]));
    expect(await listPeopleOfBrowser(stores.db, shared, 0)).toEqual([]);
    expect(await listPeopleOfBrowser(stores.db, others[0] ?? '', now + 2)).toEqual([]);
    await insertKnownBrowser(stores.db, shared, one.id, now + 366 * 24 * 3600);
    expect(await listPeopleOfBrowser(stores.db, others[0] ?? '', 0)).toEqual([]);
  });

  test('challenge: of several answers the first uses it up', async () => {
    const answers = Array.from({ length: 20 }, () =>
      markChallengeSpent(stores.db, 'one', now + 10, now),
    );

    expect((await Promise.all(answers)).filter(Boolean)).toEqual([true]);
    expect(await markChallengeSpent(stores.db, 'two', now + 10, now)).toBe(true);
  });

  test('challenges that are recorded at once: each counts once, whether alone, in one batch or in several', async () => {
    const expiresAt = now + 10;
    const batch = (...hashes: string[]) =>
      markChallengesSpentMeanwhile(
        stores.db,
        hashes.map((hash) => ({ hash, expiresAt })),
        now,
      );

    expect(await batch('a', 'b', 'a', 'c')).toEqual([true, true, false, true]);
    expect(await batch('d', 'c', 'e')).toEqual([true, false, true]);
    expect(await markChallengeSpent(stores.db, 'e', expiresAt, now)).toBe(false);
    const all = await Promise.all(Array.from({ length: 5 }, () => batch('f', 'g', 'h')));
    expect(all.flat().filter(Boolean)).toHaveLength(3);
  });

  test('challenges that are recorded at once: those that expired are forgotten', async () => {
    const record = (expiresAt: number, at: number) =>
      markChallengesSpentMeanwhile(stores.db, [{ hash: 'old', expiresAt }], at);

    expect(await record(now + 10, now)).toEqual([true]);
    expect(await record(now + 20, now + 9)).toEqual([false]);
    expect(await record(now + 20, now + 10)).toEqual([true]);
  });

  test('upstream account: it is linked to one person', async () => {
    const [one, two] = [await person(), await person()];

    expect(
      await linkIdentity(stores.db, { issuer: 'https://idp', subject: 'sub', userId: one.id }),
    ).toBe(true);
    expect(
      await linkIdentity(stores.db, { issuer: 'https://idp', subject: 'sub', userId: two.id }),
    ).toBe(false);
    expect(await findUserIdByIdentity(stores.db, 'https://idp', 'sub')).toBe(one.id);
    expect(await hasIdentity(stores.db, 'https://idp', two.id)).toBe(false);
    expect(await unlinkIdentities(stores.db, one.id, 'https://idp')).toBe(true);
  });

  test('audit event: a recorded event cannot be changed', async () => {
    const event = { at: now, actor: 'operator', organization: 'acme', target: undefined };
    const rest = { address: undefined, requestId: 'r', outcome: 'done' } as const;
    for (const action of ['first', 'second']) {
      await insertAuditEvent(stores.db, { ...event, ...rest, action });
    }

    const newest = await newestEvents(stores.db, 2);

    expect(newest.map(({ action }) => action)).toEqual(['second', 'first']);
    expect(newest[0]).toEqual({ ...event, ...rest, action: 'second' });
    const change = stores.db.updateTable('audit_event').set({ actor: 'nobody' }).execute();
    await expect(change).rejects.toThrow('never changed');
    const removal = stores.db.deleteFrom('audit_event').execute();
    await expect(removal).rejects.toThrow('never removed');
  });
});
