import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { OpenStores } from '#server/stores';

const now = 1_800_000_000;
const week = 7 * 24 * 3600;

/** What every database has to do for people, whichever it is. */
export function peopleStoresContract(
  name: string,
  open: () => Promise<OpenStores & AsyncDisposable>,
): void {
  describe(name, () => {
    let stores: OpenStores & AsyncDisposable;
    beforeAll(async () => {
      stores = await open();
      await stores.organizations.add({ id: 'org_1', name: 'acme', createdAt: now });
      await stores.organizations.add({ id: 'org_2', name: 'other', createdAt: now });
    });
    afterAll(() => stores[Symbol.asyncDispose]());

    const person = async () => {
      const id = `user_${randomUUID()}`;
      const user = { id, email: `${id}@example.com`, createdAt: now };
      await stores.users.add(user, { organizationId: 'org_1', role: 'member' });
      return user;
    };
    const session = async (userId: string, tokenHash: string = randomUUID()) => {
      const made = { id: `ses_${randomUUID()}`, userId, address: '127.0.0.1', userAgent: 'test' };
      const factors = 1 as const;
      const times = { createdAt: now, usedAt: now, expiresAt: now + 30 * 24 * 3600 };
      await stores.sessions.add({ ...made, ...times, factors, tokenHash });
      return { ...made, tokenHash };
    };

    test('a person is found by their address in any case, and may belong to two organizations', async () => {
      const user = await person();
      const again = { ...user, id: 'user_never', email: user.email.toUpperCase() };

      const second = await stores.users.add(again, { organizationId: 'org_2', role: 'owner' });
      const third = await stores.users.add(again, { organizationId: 'org_2', role: 'viewer' });

      expect([second, third]).toEqual([true, false]);
      expect(await stores.users.byEmail(again.email)).toEqual(user);
      expect(await stores.users.memberships(user.id)).toEqual([
        { organization: 'acme', role: 'member' },
        { organization: 'other', role: 'owner' },
      ]);
    });

    test('it knows whether anybody is here, and lists everybody with what they are where', async () => {
      const fresh = await open();
      await using _ = fresh;
      await fresh.organizations.add({ id: 'org_1', name: 'acme', createdAt: now });
      await fresh.organizations.add({ id: 'org_2', name: 'other', createdAt: now });
      expect(await fresh.users.hasAny()).toBe(false);
      expect(await fresh.users.list()).toEqual([]);

      const older = { id: 'user_b', email: 'b@example.com', createdAt: now };
      const newer = { id: 'user_a', email: 'a@example.com', createdAt: now + 1 };
      await fresh.users.add(newer, { organizationId: 'org_1', role: 'viewer' });
      await fresh.users.add(older, { organizationId: 'org_2', role: 'owner' });
      await fresh.users.add(older, { organizationId: 'org_1', role: 'member' });

      expect(await fresh.users.hasAny()).toBe(true);
      expect(await fresh.users.list()).toEqual([
        {
          user: older,
          memberships: [
            { organization: 'acme', role: 'member' },
            { organization: 'other', role: 'owner' },
          ],
        },
        { user: newer, memberships: [{ organization: 'acme', role: 'viewer' }] },
      ]);
    });

    test('a removed person takes sessions, password, passkeys and identities along', async () => {
      const user = await person();
      const { tokenHash } = await session(user.id);
      await stores.passwords.set(user.id, 'hash');
      await stores.identities.link('https://idp', user.id, user.id);

      expect(await stores.users.remove(user.id)).toBe(true);
      expect(await stores.users.remove(user.id)).toBe(false);
      expect(await stores.sessions.use(tokenHash, now)).toBeUndefined();
      expect(await stores.passwords.hashOf(user.id)).toBeUndefined();
      expect(await stores.identities.userOf('https://idp', user.id)).toBeUndefined();
    });

    test('a new password ends every session of the person and of nobody else', async () => {
      const [one, two] = [await person(), await person()];
      const [mine, theirs] = [await session(one.id), await session(two.id)];

      await stores.passwords.set(one.id, 'hash');

      expect(await stores.sessions.use(mine.tokenHash, now)).toBeUndefined();
      expect(await stores.sessions.use(theirs.tokenHash, now)).toMatchObject({ userId: two.id });
    });

    test('a session ends a week after its last use and a month after its start', async () => {
      const user = await person();
      const { tokenHash } = await session(user.id);

      const used = [];
      for (const at of [week - 1, 2 * week - 2, 3 * week - 3, 4 * week - 4]) {
        used.push((await stores.sessions.use(tokenHash, now + at))?.usedAt);
      }

      expect(used.every(Boolean)).toBe(true);
      expect(await stores.sessions.use(tokenHash, now + 30 * 24 * 3600)).toBeUndefined();
      const idle = await session(user.id);
      expect(await stores.sessions.use(idle.tokenHash, now + week)).toBeUndefined();
    });

    test('sessions are listed and ended by their owner only', async () => {
      const [one, two] = [await person(), await person()];
      const [first, second] = [await session(one.id), await session(one.id)];

      expect(await stores.sessions.end(two.id, first.id)).toBe(false);
      expect(await stores.sessions.list(one.id, now)).toHaveLength(2);
      await stores.sessions.endAll(one.id, second.id);
      expect((await stores.sessions.list(one.id, now)).map(({ id }) => id)).toEqual([second.id]);
    });

    test('a one-time link is taken once, by the first of many', async () => {
      const hash = randomUUID();
      await stores.links.add(hash, { type: 'set-up' }, now + 10);

      const peeked = await stores.links.peek(hash, now);
      const taken = await Promise.all(
        Array.from({ length: 20 }, () => stores.links.take(hash, now)),
      );

      expect(peeked).toEqual({ type: 'set-up' });
      expect(taken.filter(Boolean)).toEqual([{ type: 'set-up' }]);
    });

    test('a one-time link expires, and a newer one for the same purpose replaces it', async () => {
      const user = await person();
      const [old, young] = [randomUUID(), randomUUID()];
      await stores.links.add(old, { type: 'reset', userId: user.id }, now + 10);
      await stores.links.add(young, { type: 'reset', userId: user.id }, now + 10);

      expect(await stores.links.take(old, now)).toBeUndefined();
      expect(await stores.links.take(young, now + 10)).toBeUndefined();
      expect(await stores.links.take(young, now)).toEqual({ type: 'reset', userId: user.id });
    });

    test('of two uses of a passkey with one counter only one counts', async () => {
      const user = await person();
      const passkey = { id: randomUUID(), userId: user.id, name: 'Key', publicKey: 'k' };
      const kept = { ...passkey, counter: 3, transports: ['usb'], createdAt: now };
      await stores.passkeys.add({ ...kept, lastUsedAt: undefined });

      const uses = await Promise.all([
        stores.passkeys.used(passkey.id, { from: 3, to: 4 }, now),
        stores.passkeys.used(passkey.id, { from: 3, to: 4 }, now),
      ]);

      expect(uses.sort()).toEqual([false, true]);
      expect(await stores.passkeys.byId(passkey.id)).toEqual({
        ...kept,
        counter: 4,
        lastUsedAt: now,
      });
      expect(await stores.passkeys.remove('user_other', passkey.id)).toBe(false);
      expect(await stores.passkeys.remove(user.id, passkey.id)).toBe(true);
    });

    /** Begins an attempt, and says what it was told of those before it. */
    const begin = async (
      attempt: { subject: string; place: string; at?: number },
      { since = now - 900, waitSeconds = 0 }: { since?: number; waitSeconds?: number } = {},
    ) => {
      let told: unknown;
      const windows = { subject: since, place: since };
      await stores.attempts.begin({ at: now, ...attempt }, windows, (earlier) => {
        told = { atSubject: Object.fromEntries(earlier.atSubject), fromPlace: earlier.fromPlace };
        return waitSeconds;
      });
      return told;
    };
    const nothing = { atSubject: {}, fromPlace: { count: 0, lastAt: 0 } };

    test('attempts at the same time are counted one by one', async () => {
      const [subject, place] = [randomUUID(), randomUUID()];
      const counts: number[] = [];

      await Promise.all(
        Array.from({ length: 10 }, () =>
          stores.attempts.begin(
            { subject, place, at: now },
            { subject: now - 900, place: now - 900 },
            ({ fromPlace }) => {
              counts.push(fromPlace.count);
              return 0;
            },
          ),
        ),
      );

      expect(counts.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    });

    test('an attempt that has to wait leaves nothing behind', async () => {
      const attempt = { subject: randomUUID(), place: randomUUID() };

      await begin(attempt, { waitSeconds: 2 });

      expect(await begin(attempt)).toEqual(nothing);
    });

    test('attempts are counted by subject and place, and within the window', async () => {
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
        fromPlace: { count: 4, lastAt: now + 8 },
      });
      expect(late).toEqual({
        atSubject: { [other]: fromOther },
        fromPlace: { count: 1, lastAt: now + 8 },
      });
    });

    test('attempts at a subject are cleared, from one place or from all', async () => {
      const [subject, place, other] = [randomUUID(), randomUUID(), randomUUID()];
      for (const where of [place, other]) await begin({ subject, place: where });
      await stores.attempts.clear(subject, place);
      const one = await begin({ subject, place }, { waitSeconds: 1 });
      await stores.attempts.clear(subject);

      expect(one).toEqual({ ...nothing, atSubject: { [other]: { count: 1, lastAt: now } } });
      expect(await begin({ subject, place: other })).toEqual(nothing);
    });

    test('attempts are stored for a day', async () => {
      const attempt = { subject: randomUUID(), place: randomUUID() };
      await begin(attempt);
      await begin({ ...attempt, subject: randomUUID(), at: now + 24 * 3600 + 1 });

      const told = await begin(attempt, { since: 0, waitSeconds: 1 });

      expect(told).toMatchObject({ atSubject: {}, fromPlace: { count: 1 } });
    });

    test('a browser is known for the people who signed in there, the latest twenty of each, for a year', async () => {
      const [one, two] = [await person(), await person()];
      const shared = randomUUID();
      await stores.knownBrowsers.remember(shared, one.id, now);
      await stores.knownBrowsers.remember(shared, two.id, now + 1);
      const both = await stores.knownBrowsers.people(shared, 0);
      const others = Array.from({ length: 20 }, () => randomUUID());
      for (const other of others) await stores.knownBrowsers.remember(other, one.id, now + 2);
      const left = await stores.knownBrowsers.people(shared, 0);
      await stores.knownBrowsers.remember(shared, two.id, now + 9);
      const known = await Promise.all(
        others.map((other) => stores.knownBrowsers.people(other, now)),
      );
      await stores.users.remove(two.id);

      expect(both.toSorted()).toEqual([one.id, two.id].toSorted());
      expect(left).toEqual([two.id]);
      expect(known).toEqual(others.map(() => [one.id]));
      expect(await stores.knownBrowsers.people(shared, 0)).toEqual([]);
      expect(await stores.knownBrowsers.people(others[0] ?? '', now + 2)).toEqual([]);
      await stores.knownBrowsers.remember(shared, one.id, now + 366 * 24 * 3600);
      expect(await stores.knownBrowsers.people(others[0] ?? '', 0)).toEqual([]);
    });

    test('a challenge is answered once, by the first of many', async () => {
      const answers = Array.from({ length: 20 }, () =>
        stores.challenges.spend('one', now + 10, now),
      );

      expect((await Promise.all(answers)).filter(Boolean)).toEqual([true]);
      expect(await stores.challenges.spend('two', now + 10, now)).toBe(true);
    });

    test('an upstream account is tied to one person', async () => {
      const [one, two] = [await person(), await person()];

      expect(await stores.identities.link('https://idp', 'sub', one.id)).toBe(true);
      expect(await stores.identities.link('https://idp', 'sub', two.id)).toBe(false);
      expect(await stores.identities.userOf('https://idp', 'sub')).toBe(one.id);
      expect(await stores.identities.isLinked('https://idp', two.id)).toBe(false);
      expect(await stores.identities.unlink('https://idp', one.id)).toBe(true);
    });

    test('an audit event stays as it was written', async () => {
      const event = { at: now, actor: 'operator', organization: 'acme', target: undefined };
      const rest = { address: undefined, requestId: 'r', outcome: 'done' } as const;
      for (const action of ['first', 'second']) {
        await stores.audit.append({ ...event, ...rest, action });
      }

      const newest = await stores.audit.newest(2);

      expect(newest.map(({ action }) => action)).toEqual(['second', 'first']);
      expect(newest[0]).toEqual({ ...event, ...rest, action: 'second' });
      const change = stores.db.updateTable('audit_event').set({ actor: 'nobody' }).execute();
      await expect(change).rejects.toThrow('never changed');
      const removal = stores.db.deleteFrom('audit_event').execute();
      await expect(removal).rejects.toThrow('never removed');
    });
  });
}
