import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { OpenStores } from '#server/stores';
import { openDatabase } from '#support/open-database';

const now = 1_800_000_000;
const issuer = 'https://idp.example';

describe.each([['SQLite', openDatabase]])('memberships and groups in %s', (_, open) => {
  let stores: OpenStores & AsyncDisposable;
  let org = '';
  beforeAll(async () => {
    stores = await open();
    await stores.organizations.add({ id: 'org_x', name: 'x', createdAt: now });
  });
  afterAll(() => stores[Symbol.asyncDispose]());
  beforeEach(async () => {
    org = `org_${randomUUID()}`;
    await stores.organizations.add({ id: org, name: org.replace('_', '-'), createdAt: now });
  });

  const person = async (role: 'owner' | 'admin' | 'member' = 'member', where = org) => {
    const id = `user_${randomUUID()}`;
    const user = { id, email: `${id}@example.com`, createdAt: now };
    await stores.users.add(user, { organizationId: where, role });
    return id;
  };
  const group = async (name: string, organizationId = org) => {
    const id = `group_${randomUUID()}`;
    await stores.groups.add({ id, organizationId, name, createdAt: now });
    return id;
  };
  const server = async (name: string) => {
    const id = `srv_${randomUUID()}`;
    const upstream = { kind: 'demo' } as const;
    const made = { id, organizationId: org, name, upstream, createdAt: now };
    await stores.organizations.addServer(made);
    return { id, path: `${org.replace('_', '-')}/${name}` };
  };
  const roleOf = async (userId: string) => (await stores.memberships.of(org, userId))?.role;

  test('a role changes from what it was seen to be, and from nothing else', async () => {
    const userId = await person('member');

    const stale = await stores.memberships.setRole(org, userId, { from: 'viewer', to: 'owner' });
    const done = await stores.memberships.setRole(org, userId, { from: 'member', to: 'admin' });

    expect([stale, done, await roleOf(userId)]).toEqual(['stale', 'done', 'admin']);
  });

  test('however many step down at once, an organization keeps an owner', async () => {
    const owners = await Promise.all(Array.from({ length: 5 }, () => person('owner')));

    const changes = await Promise.all(
      owners.map((userId, place) =>
        place % 2 === 0
          ? stores.memberships.remove(org, userId, 'owner')
          : stores.memberships.setRole(org, userId, { from: 'owner', to: 'viewer' }),
      ),
    );

    expect(changes.toSorted()).toEqual(['done', 'done', 'done', 'done', 'last-owner']);
    const left = await stores.memberships.list(org, { limit: 10 });
    expect(left.filter(({ role }) => role === 'owner')).toHaveLength(1);
  });

  test('ownership is handed on whole, to a member and by an owner only', async () => {
    const [owner, heir, stranger] = [await person('owner'), await person(), 'user_nobody'];

    const wrong = [
      await stores.memberships.transfer(org, { from: owner, to: stranger }),
      await stores.memberships.transfer(org, { from: heir, to: owner }),
      await stores.memberships.transfer(org, { from: owner, to: owner }),
    ];
    const right = await stores.memberships.transfer(org, { from: owner, to: heir });

    expect([...wrong, right]).toEqual([false, false, false, true]);
    expect([await roleOf(owner), await roleOf(heir)]).toEqual(['admin', 'owner']);
  });

  test('who leaves an organization leaves its groups and what they granted there', async () => {
    const [userId, sales] = [await person(), await group('sales')];
    const { path } = await server('crm');
    await stores.groupMembers.add(org, sales, userId);

    const left = await stores.memberships.remove(org, userId, 'member');

    expect(left).toBe('done');
    expect(await stores.groupMembers.list(sales)).toEqual([]);
    expect(await stores.serverGroups.mayUse(userId, path)).toBe(false);
    expect(await stores.users.byId(userId)).toBeDefined();
  });

  test('members are listed by address, page by page, and found by a part of it', async () => {
    const ids = await Promise.all(Array.from({ length: 5 }, () => person()));
    const sorted = ids.map((id) => `${id}@example.com`).toSorted();

    const first = await stores.memberships.list(org, { limit: 3 });
    const after = first.at(-1)?.email;
    const rest = await stores.memberships.list(org, { after, limit: 3 });
    const found = await stores.memberships.list(org, {
      search: (sorted[2] ?? '').toUpperCase().slice(0, 20),
      limit: 3,
    });
    const wild = await stores.memberships.list(org, { search: '%', limit: 3 });

    expect([...first, ...rest].map(({ email }) => email)).toEqual(sorted);
    expect(found.map(({ email }) => email)).toEqual([sorted[2]]);
    expect(wild).toEqual([]);
  });

  test('a server without a rule is every member’s, with one only its groups’', async () => {
    const [inside, outside] = [await person(), await person('owner')];
    const stranger = await person('owner', 'org_x');
    const sales = await group('sales');
    const { id, path } = await server('crm');
    await stores.groupMembers.add(org, sales, inside);
    const may = async () => [
      await stores.serverGroups.mayUse(inside, path),
      await stores.serverGroups.mayUse(outside, path),
      await stores.serverGroups.mayUse(stranger, path),
    ];

    const unruled = await may();
    await stores.serverGroups.set(id, [sales]);
    const ruled = await may();
    const removed = await stores.groups.remove(org, sales);
    await stores.serverGroups.set(id, []);

    expect([unruled, ruled, await may()]).toEqual([
      [true, true, false],
      [true, false, false],
      [true, true, false],
    ]);
    expect(removed).toBe('in-use');
    expect(await stores.groups.remove(org, sales)).toBe('done');
  });

  test('nothing crosses from one organization to another', async () => {
    const foreign = await group(`foreign ${randomUUID()}`, 'org_x');
    const [userId, { id }] = [await person(), await server('crm')];

    expect(await stores.groupMembers.add(org, foreign, userId)).toBe(false);
    expect(await stores.groupMembers.add('org_x', foreign, userId)).toBe(false);
    expect(await stores.serverGroups.set(id, [foreign])).toBe(false);
    expect(await stores.groupMappings.add(org, 'staff', foreign)).toBe(false);
    expect(await stores.groups.rename(org, foreign, 'mine')).toBe(false);
    expect(await stores.groups.remove(org, foreign)).toBe('unknown');
  });

  test('the provider’s groups count as mapped, and touch nothing that was made by hand', async () => {
    const [userId, stranger] = [await person(), await person('member', 'org_x')];
    const [sales, staff] = [await group('sales'), await group('staff')];
    await stores.identities.link(issuer, userId, userId);
    await stores.identities.link(issuer, stranger, stranger);
    await stores.groupMembers.add(org, staff, userId);
    await stores.groupMappings.add(org, 'idp-sales', sales);
    await stores.groupMappings.add(org, 'idp-staff', staff);
    const groups = async () =>
      (await stores.memberships.of(org, userId))?.groups.map((g) => g.name);

    await stores.groupMembers.setProvided(issuer, userId, ['idp-sales', 'idp-staff', 'other']);
    await stores.groupMembers.setProvided(issuer, stranger, ['idp-sales']);
    const given = await groups();
    const listed = await stores.groupMembers.list(staff);
    const salesPeople = await stores.groupMembers.list(sales);
    await stores.groupMembers.setProvided(issuer, userId, []);
    const taken = await groups();
    await stores.groupMembers.setProvided(issuer, userId, ['idp-sales']);
    await stores.groupMappings.remove(org, 'idp-sales', sales);
    const unmapped = await groups();

    expect(given).toEqual(['sales', 'staff']);
    expect(listed.map(({ source }) => source)).toEqual(['hand']);
    expect(salesPeople.map((one) => [one.userId, one.source])).toEqual([[userId, 'provider']]);
    expect([taken, unmapped]).toEqual([['staff'], ['staff']]);
    expect(await stores.groupMembers.remove(org, sales, userId)).toBe(false);
  });

  test('an account that is unlinked takes the provider’s groups along', async () => {
    const [userId, sales] = [await person(), await group('sales')];
    await stores.identities.link(issuer, userId, userId);
    await stores.groupMappings.add(org, 'idp-unlinked', sales);
    await stores.groupMembers.setProvided(issuer, userId, ['idp-unlinked']);

    await stores.identities.unlink(issuer, userId);
    await stores.identities.link(issuer, userId, userId);

    expect(await stores.groupMembers.list(sales)).toEqual([]);
  });

  test('an organization is removed with its groups, rules and invitations', async () => {
    const sales = await group('sales');
    const { id } = await server('crm');
    await stores.serverGroups.set(id, [sales]);

    await stores.db.deleteFrom('organization').where('id', '=', org).execute();

    expect(await stores.groups.list(org)).toEqual([]);
  });

  test('an invitation is taken by the first of many, with the groups that are still there', async () => {
    const [sales, gone] = [await group('sales'), await group('gone')];
    const invited = await Promise.all(Array.from({ length: 8 }, () => person('member', 'org_x')));
    const tokenHash = randomUUID();
    const made = { id: `invitation_${randomUUID()}`, organizationId: org, createdAt: now };
    const offer = { role: 'admin', groupIds: [sales, gone], note: 'Dana', createdBy: 'operator' };
    await stores.invitations.add({
      ...made,
      ...offer,
      role: 'admin',
      tokenHash,
      expiresAt: now + 9,
    });
    await stores.groups.remove(org, gone);

    const late = await stores.invitations.peek(tokenHash, now + 9);
    const pending = await stores.invitations.list(org, now);
    const taken = await Promise.all(
      invited.map((id) => stores.invitations.take(tokenHash, { id }, now)),
    );

    expect(late).toBeUndefined();
    expect(pending.map(({ note, role }) => [note, role])).toEqual([['Dana', 'admin']]);
    expect(taken.toSorted()).toEqual(['done', ...Array.from({ length: 7 }, () => 'over')]);
    const [member] = await stores.memberships.list(org, { limit: 9 });
    expect(member?.groups.map(({ name }) => name)).toEqual(['sales']);
    expect(await stores.invitations.list(org, now)).toEqual([]);
  });

  test('an invitation makes a person whole, or not at all', async () => {
    const tokenHash = randomUUID();
    const made = { id: `invitation_${randomUUID()}`, organizationId: org, createdAt: now };
    const offer = { role: 'member', groupIds: [], note: '', createdBy: 'operator' } as const;
    await stores.invitations.add({ ...made, ...offer, tokenHash, expiresAt: now + 9 });
    const known = await person('member', 'org_x');
    const id = `user_${randomUUID()}`;
    const identity = { issuer, subject: id };
    const fresh = { id, createdAt: now, passwordHash: 'hash', identity };

    const taken = await stores.invitations.take(
      tokenHash,
      { ...fresh, email: `${known}@EXAMPLE.com` },
      now,
    );
    const nobody = await stores.users.byId(id);
    const done = await stores.invitations.take(tokenHash, { ...fresh, email: `${id}@a.b` }, now);

    expect([taken, nobody, done]).toEqual(['address-taken', undefined, 'done']);
    expect(await stores.passwords.hashOf(id)).toBe('hash');
    expect(await stores.identities.userOf(issuer, id)).toBe(id);
    expect(await roleOf(id)).toBe('member');
  });

  test('an invitation is revoked by its own organization, and leaves members as they are', async () => {
    const tokenHash = randomUUID();
    const id = `invitation_${randomUUID()}`;
    const made = { id, organizationId: org, createdAt: now, role: 'owner' } as const;
    const offer = { groupIds: [], note: '', createdBy: 'operator', expiresAt: now + 9 };
    await stores.invitations.add({ ...made, ...offer, tokenHash });
    const member = await person('member');

    const again = await stores.invitations.take(tokenHash, { id: member }, now);
    const foreign = await stores.invitations.revoke('org_x', id);
    const own = await stores.invitations.revoke(org, id);

    expect([again, foreign, own]).toEqual(['member-already', false, true]);
    expect(await roleOf(member)).toBe('member');
    expect(await stores.invitations.peek(tokenHash, now)).toBeUndefined();
  });

  test('settings are what they were until they are changed, one by one', async () => {
    const name = org.replace('_', '-');

    const before = await stores.settings.of(name);
    await stores.settings.update(org, { secondFactorRequired: true });
    await stores.settings.update(org, { openClientsAllowed: false });

    expect(before).toEqual({ secondFactorRequired: false, openClientsAllowed: true });
    expect(await stores.settings.of(name)).toEqual({
      secondFactorRequired: true,
      openClientsAllowed: false,
    });
    expect(await stores.settings.of('nothing')).toBeUndefined();
  });

  test('the code of a step is used once, and none of a step before it', async () => {
    const userId = await person();
    await stores.totps.begin({ userId, sealedSecret: 'a', createdAt: now });
    await stores.totps.begin({ userId, sealedSecret: 'b', createdAt: now });
    const early = await stores.totps.use(userId, 5);
    const confirm = () =>
      stores.totps.confirm(userId, { step: 7, now, recoveryHashes: ['x', 'y'] });
    const confirmed = [await confirm(), await confirm()];

    const uses = await Promise.all([7, 8, 8, 8, 6].map((step) => stores.totps.use(userId, step)));
    const codes = [
      await stores.recoveryCodes.use('user_other', 'x'),
      await stores.recoveryCodes.use(userId, 'x'),
      await stores.recoveryCodes.use(userId, 'x'),
    ];

    expect([early, confirmed]).toEqual([false, [true, false]]);
    expect(uses).toEqual([false, true, false, false, false]);
    expect(codes).toEqual([false, true, false]);
    expect(await stores.recoveryCodes.count(userId)).toBe(1);
    expect(await stores.totps.begin({ userId, sealedSecret: 'c', createdAt: now })).toBe(false);
    expect([await stores.totps.remove(userId), await stores.totps.remove(userId)]).toEqual([
      true,
      false,
    ]);
    expect(await stores.recoveryCodes.count(userId)).toBe(0);
  });
});
