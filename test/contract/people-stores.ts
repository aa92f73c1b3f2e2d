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

    test('attempts at the same time are counted one by one', async () => {
      const subject = randomUUID();

      const begun = await Promise.all(
        Array.from({ length: 10 }, () => stores.attempts.begin(subject, now, now - 900)),
      );

      expect(begun.map(({ count }) => count).sort((a, b) => a - b)).toEqual([
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
      ]);
    });

    test('an attempt is forgiven, forgotten after the window, and cleared', async () => {
      const subject = randomUUID();
      for (const at of [now, now, now + 5]) await stores.attempts.begin(subject, at, now);

      await stores.attempts.forgive(subject, now);

      const early = await stores.attempts.begin(subject, now + 10, now);
      const late = await stores.attempts.begin(subject, now + 20, now + 6);
      await stores.attempts.clear(subject);
      expect(early).toEqual({ count: 2, lastAt: now + 5 });
      expect(late).toEqual({ count: 1, lastAt: now + 10 });
      expect(await stores.attempts.begin(subject, now, 0)).toEqual({ count: 0, lastAt: 0 });
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
