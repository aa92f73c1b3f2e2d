import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import { insertServer } from '#server/db/servers';
import {
  insertUser,
  changeRole,
  findMember,
  findUser,
  listMembers,
  removeMember,
  transferOwnership,
} from '#server/db/people';
import { findUserIdByIdentity, linkIdentity, unlinkIdentities } from '#server/db/identities';
import {
  insertGroup,
  insertGroupMapping,
  insertGroupMember,
  deleteGroup,
  listGroupMembers,
  listGroups,
  removeGroupMapping,
  removeGroupMember,
  renameGroup,
  setProviderGroups,
} from '#server/db/groups';
import {
  countAllowedMembers,
  findServerAccess,
  listUsableServers,
  mayUseServer,
  previewServerAccess,
  setServerAccess,
} from '#server/db/server-access';
import {
  insertInvitation,
  findInvitation,
  listInvitations,
  revokeInvitation,
  acceptInvitation,
  countInvitations,
  insertInvitations,
  renewInvitation,
} from '#server/db/invitations';
import {
  insertTotp,
  countRecoveryCodes,
  deleteTotp,
  findPasswordHash,
  markTotpConfirmed,
  spendRecoveryCode,
  spendTotpStep,
} from '#server/db/authenticators';
import { findSettings, updateSettings } from '#server/db/settings';
import { onEachDatabase, type TestDatabase } from '#support/databases';

const now = 1_800_000_000;
const issuer = 'https://idp.example';

await onEachDatabase('memberships and groups', ({ open }) => {
  let stores: TestDatabase;
  let org = '';
  beforeAll(async () => {
    stores = await open();
    await insertOrganization(stores.db, { id: 'org_x', name: 'x', createdAt: now });
  });
  afterAll(() => stores[Symbol.asyncDispose]());
  beforeEach(async () => {
    org = `org_${randomUUID()}`;
    await insertOrganization(stores.db, { id: org, name: org.replace('_', '-'), createdAt: now });
  });

  const person = async (role: 'owner' | 'admin' | 'member' = 'member', where = org) => {
    const id = `user_${randomUUID()}`;
    const user = { id, email: `${id}@example.com`, createdAt: now };
    await insertUser(stores.db, user, { organizationId: where, role });
    return id;
  };
  const group = async (name: string, organizationId = org) => {
    const id = `group_${randomUUID()}`;
    await insertGroup(stores.db, { id, organizationId, name, createdAt: now });
    return id;
  };
  const server = async (name: string) => {
    const id = `srv_${randomUUID()}`;
    const upstream = { kind: 'demo' } as const;
    const made = { id, organizationId: org, name, upstream, createdAt: now };
    await insertServer(stores.db, { ...made, targetId: `target_of_${id}` });
    return { id, path: `${org.replace('_', '-')}/${name}` };
  };
  const roleOf = async (userId: string) => (await findMember(stores.db, org, userId))?.role;

  test('a role change succeeds only from the role that was expected', async () => {
    const userId = await person('member');

    const stale = await changeRole(stores.db, org, userId, { from: 'viewer', to: 'owner' });
    const done = await changeRole(stores.db, org, userId, { from: 'member', to: 'admin' });

    expect([stale, done, await roleOf(userId)]).toEqual(['stale', 'done', 'admin']);
  });

  test('however many owners step down concurrently, the organization keeps one', async () => {
    const owners = await Promise.all(Array.from({ length: 5 }, () => person('owner')));

    const changes = await Promise.all(
      owners.map((userId, place) =>
        place % 2 === 0
          ? removeMember(stores.db, org, userId, 'owner')
          : changeRole(stores.db, org, userId, { from: 'owner', to: 'viewer' }),
      ),
    );

    expect(changes.toSorted()).toEqual(['done', 'done', 'done', 'done', 'last-owner']);
    const left = await listMembers(stores.db, org, { limit: 10 });
    expect(left.filter(({ role }) => role === 'owner')).toHaveLength(1);
  });

  test('ownership is transferred completely, by an owner and to a member only', async () => {
    const [owner, heir, stranger] = [await person('owner'), await person(), 'user_nobody'];

    const wrong = [
      await transferOwnership(stores.db, org, { from: owner, to: stranger }),
      await transferOwnership(stores.db, org, { from: heir, to: owner }),
      await transferOwnership(stores.db, org, { from: owner, to: owner }),
    ];
    const right = await transferOwnership(stores.db, org, { from: owner, to: heir });

    expect([...wrong, right]).toEqual([false, false, false, true]);
    expect([await roleOf(owner), await roleOf(heir)]).toEqual(['admin', 'owner']);
  });

  test('a person who leaves an organization loses its groups and their consents there', async () => {
    const [userId, sales] = [await person(), await group('sales')];
    const { path } = await server('crm');
    await insertGroupMember(stores.db, org, sales, userId);

    const left = await removeMember(stores.db, org, userId, 'member');

    expect(left).toBe('done');
    expect(await listGroupMembers(stores.db, sales)).toEqual([]);
    expect(await mayUseServer(stores.db, userId, path)).toBe(false);
    expect(await findUser(stores.db, userId)).toBeDefined();
  });

  test('members are listed by address in pages, and found by part of it', async () => {
    const ids = await Promise.all(Array.from({ length: 5 }, () => person()));
    const sorted = ids.map((id) => `${id}@example.com`).toSorted();

    const first = await listMembers(stores.db, org, { limit: 3 });
    const after = first.at(-1)?.email;
    const rest = await listMembers(stores.db, org, { after, limit: 3 });
    const found = await listMembers(stores.db, org, {
      search: (sorted[2] ?? '').toUpperCase().slice(0, 20),
      limit: 3,
    });
    const wild = await listMembers(stores.db, org, { search: '%', limit: 3 });

    expect([...first, ...rest].map(({ email }) => email)).toEqual(sorted);
    expect(found.map(({ email }) => email)).toEqual([sorted[2]]);
    expect(wild).toEqual([]);
  });

  test('a server is open to everyone in its organization, or restricted to groups', async () => {
    const [inside, outside] = [await person(), await person('owner')];
    const stranger = await person('owner', 'org_x');
    const sales = await group('sales');
    const { id, path } = await server('crm');
    await insertGroupMember(stores.db, org, sales, inside);
    const may = async () => [
      await mayUseServer(stores.db, inside, path),
      await mayUseServer(stores.db, outside, path),
      await mayUseServer(stores.db, stranger, path),
    ];

    const unruled = await may();
    await setServerAccess(stores.db, id, { access: 'groups', groupIds: [sales] });
    const ruled = await may();
    const removed = await deleteGroup(stores.db, org, sales);
    await setServerAccess(stores.db, id, { access: 'everyone', groupIds: [] });

    expect([unruled, ruled, await may()]).toEqual([
      [true, true, false],
      [true, false, false],
      [true, true, false],
    ]);
    expect(removed).toBe('in-use');
    expect(await deleteGroup(stores.db, org, sales)).toBe('done');
  });

  test('a server that is restricted to groups stays closed when it has none', async () => {
    const owner = await person('owner');
    const { id, path } = await server('crm');

    await setServerAccess(stores.db, id, { access: 'groups', groupIds: [] });

    expect(await findServerAccess(stores.db, id)).toEqual({
      access: 'groups',
      groups: [],
      isRequestable: false,
    });
    expect(await mayUseServer(stores.db, owner, path)).toBe(false);
    expect(await listUsableServers(stores.db, owner, org.replace('_', '-'), 9)).toEqual([]);
  });

  test('a change of who may use a server is previewed without its effect', async () => {
    const [inside, other, outside] = [await person(), await person(), await person('owner')];
    const [sales, staff] = [await group('sales'), await group('staff')];
    const { id, path } = await server('crm');
    await insertGroupMember(stores.db, org, sales, inside);
    await insertGroupMember(stores.db, org, staff, other);
    const preview = async (access: 'everyone' | 'groups', ...groupIds: string[]) => {
      const choice = { access, groupIds };
      const { gains, loses } = await previewServerAccess(stores.db, id, choice, 1);
      const allowed = await countAllowedMembers(stores.db, id, choice);
      return [gains.count, loses.count, allowed, [...gains.people, ...loses.people].length];
    };

    const toSales = await preview('groups', sales);
    const toNobody = await preview('groups');
    const unchanged = await preview('everyone');
    expect(await mayUseServer(stores.db, outside, path)).toBe(true);
    await setServerAccess(stores.db, id, { access: 'groups', groupIds: [sales] });
    const toStaff = await preview('groups', staff);
    const toBoth = await preview('groups', sales, staff);
    const toEveryone = await preview('everyone');

    expect([toSales, toNobody, unchanged]).toEqual([
      [0, 2, 1, 1],
      [0, 3, 0, 1],
      [0, 0, 3, 0],
    ]);
    expect([toStaff, toBoth, toEveryone]).toEqual([
      [1, 1, 1, 2],
      [1, 0, 2, 1],
      [2, 0, 3, 1],
    ]);
  });

  test('no role, group, rule or invitation crosses from one organization to another', async () => {
    const foreign = await group(`foreign ${randomUUID()}`, 'org_x');
    const [userId, { id }] = [await person(), await server('crm')];

    expect(await insertGroupMember(stores.db, org, foreign, userId)).toBe(false);
    expect(await insertGroupMember(stores.db, 'org_x', foreign, userId)).toBe(false);
    expect(await setServerAccess(stores.db, id, { access: 'groups', groupIds: [foreign] })).toBe(
      false,
    );
    expect(await insertGroupMapping(stores.db, org, 'staff', foreign)).toBe(false);
    expect(await renameGroup(stores.db, org, foreign, 'mine')).toBe(false);
    expect(await deleteGroup(stores.db, org, foreign)).toBe('unknown');
  });

  test('provider groups apply as mapped, and leave memberships that were set by hand alone', async () => {
    const [userId, stranger] = [await person(), await person('member', 'org_x')];
    const [sales, staff] = [await group('sales'), await group('staff')];
    await linkIdentity(stores.db, { issuer, subject: userId, userId });
    await linkIdentity(stores.db, { issuer, subject: stranger, userId: stranger });
    await insertGroupMember(stores.db, org, staff, userId);
    await insertGroupMapping(stores.db, org, 'idp-sales', sales);
    await insertGroupMapping(stores.db, org, 'idp-staff', staff);
    const groups = async () =>
      (await findMember(stores.db, org, userId))?.groups.map((g) => g.name);

    await setProviderGroups(stores.db, { issuer, subject: userId }, [
      'idp-sales',
      'idp-staff',
      'other',
    ]);
    await setProviderGroups(stores.db, { issuer, subject: stranger }, ['idp-sales']);
    const given = await groups();
    const listed = await listGroupMembers(stores.db, staff);
    const salesPeople = await listGroupMembers(stores.db, sales);
    await setProviderGroups(stores.db, { issuer, subject: userId }, []);
    const taken = await groups();
    await setProviderGroups(stores.db, { issuer, subject: userId }, ['idp-sales']);
    await removeGroupMapping(stores.db, org, 'idp-sales', sales);
    const unmapped = await groups();

    expect(given).toEqual(['sales', 'staff']);
    expect(listed.map(({ source }) => source)).toEqual(['hand']);
    expect(salesPeople.map((one) => [one.userId, one.source])).toEqual([[userId, 'provider']]);
    expect([taken, unmapped]).toEqual([['staff'], ['staff']]);
    expect(await removeGroupMember(stores.db, org, sales, userId)).toBe(false);
  });

  test('unlinking an account removes the groups that its provider gave', async () => {
    const [userId, sales] = [await person(), await group('sales')];
    await linkIdentity(stores.db, { issuer, subject: userId, userId });
    await insertGroupMapping(stores.db, org, 'idp-unlinked', sales);
    await setProviderGroups(stores.db, { issuer, subject: userId }, ['idp-unlinked']);

    await unlinkIdentities(stores.db, userId, issuer);
    await linkIdentity(stores.db, { issuer, subject: userId, userId });

    expect(await listGroupMembers(stores.db, sales)).toEqual([]);
  });

  test('removing an organization removes its groups, rules and invitations', async () => {
    const sales = await group('sales');
    const { id } = await server('crm');
    await setServerAccess(stores.db, id, { access: 'groups', groupIds: [sales] });

    await stores.db.deleteFrom('organization').where('id', '=', org).execute();

    expect(await listGroups(stores.db, org)).toEqual([]);
  });

  test('of several people who accept an invitation one joins, with the groups that still exist', async () => {
    const [sales, gone] = [await group('sales'), await group('gone')];
    const invited = await Promise.all(Array.from({ length: 8 }, () => person('member', 'org_x')));
    const tokenHash = randomUUID();
    const made = { id: `invitation_${randomUUID()}`, organizationId: org, createdAt: now };
    const offer = { role: 'admin', groupIds: [sales, gone], note: 'Dana', createdBy: 'operator' };
    await insertInvitation(stores.db, {
      ...made,
      ...offer,
      role: 'admin',
      tokenHash,
      expiresAt: now + 9,
    });
    await deleteGroup(stores.db, org, gone);

    const late = await findInvitation(stores.db, tokenHash, now + 9);
    const pending = await listInvitations(stores.db, org, now);
    const taken = await Promise.all(
      invited.map((id) => acceptInvitation(stores.db, tokenHash, { id }, now)),
    );

    expect(late).toBeUndefined();
    expect(pending.map(({ note, role }) => [note, role])).toEqual([['Dana', 'admin']]);
    expect(taken.toSorted()).toEqual(['done', ...Array.from({ length: 7 }, () => 'invalid')]);
    const [member] = await listMembers(stores.db, org, { limit: 9 });
    expect(member?.groups.map(({ name }) => name)).toEqual(['sales']);
    expect(await listInvitations(stores.db, org, now)).toEqual([]);
  });

  test('accepting an invitation stores the whole person or nothing', async () => {
    const tokenHash = randomUUID();
    const made = { id: `invitation_${randomUUID()}`, organizationId: org, createdAt: now };
    const offer = { role: 'member', groupIds: [], note: '', createdBy: 'operator' } as const;
    await insertInvitation(stores.db, { ...made, ...offer, tokenHash, expiresAt: now + 9 });
    const known = await person('member', 'org_x');
    const id = `user_${randomUUID()}`;
    const identity = { issuer, subject: id };
    const fresh = { id, createdAt: now, passwordHash: 'hash', identity };

    const taken = await acceptInvitation(
      stores.db,
      tokenHash,
      { ...fresh, email: `${known}@EXAMPLE.com` },
      now,
    );
    const nobody = await findUser(stores.db, id);
    const done = await acceptInvitation(
      stores.db,
      tokenHash,
      { ...fresh, email: `${id}@a.b` },
      now,
    );

    expect([taken, nobody, done]).toEqual(['address-taken', undefined, 'done']);
    expect(await findPasswordHash(stores.db, id)).toBe('hash');
    expect(await findUserIdByIdentity(stores.db, issuer, id)).toBe(id);
    expect(await roleOf(id)).toBe('member');
  });

  test('a renewed invitation keeps its three latest earlier links, and accepting it by one ends all of them', async () => {
    const id = `invitation_${randomUUID()}`;
    const made = { id, organizationId: org, createdAt: now, role: 'viewer' } as const;
    const offer = { groupIds: [], note: '', createdBy: 'operator', expiresAt: now + 9 };
    const hashes = Array.from({ length: 6 }, () => randomUUID());
    const [first = '', ...later] = hashes;
    await insertInvitation(stores.db, { ...made, ...offer, tokenHash: first });
    const renew = (tokenHash: string, createdAt: number, organizationId = org) => {
      const renewed = { tokenHash, createdAt, createdBy: 'user:dana', expiresAt: now + 99 };
      return renewInvitation(stores.db, organizationId, id, { ...renewed, keepsLinks: true });
    };
    for (const [index, tokenHash] of later.entries()) await renew(tokenHash, now + index);
    const foreign = await renew(randomUUID(), now + 9, 'org_x');
    const owner = await person('owner');
    const by = { created_by: `user:${owner}` };
    await stores.db.updateTable('invitation').set(by).where('id', '=', id).execute();
    const valid = () =>
      Promise.all(
        hashes.map(async (hash) => Boolean(await findInvitation(stores.db, hash, now + 9))),
      );

    const before = await valid();
    const guest = await person('member', 'org_x');
    const taken = await acceptInvitation(stores.db, later[2] ?? '', { id: guest }, now + 9);

    expect(foreign).toBe(false);
    expect(before).toEqual([false, false, true, true, true, true]);
    expect(taken).toBe('done');
    expect(await valid()).toEqual(hashes.map(() => false));
  });

  test('an expired invitation is listed for thirty days, and only as such', async () => {
    const id = `invitation_${randomUUID()}`;
    const made = { id, organizationId: org, createdAt: now, role: 'viewer' } as const;
    const offer = { groupIds: [], note: '', createdBy: 'operator', expiresAt: now + 9 };
    await insertInvitation(stores.db, { ...made, ...offer, tokenHash: randomUUID() });
    const listed = async (at: number, which: 'pending' | 'all') =>
      (await listInvitations(stores.db, org, at, which)).map((one) => one.id);
    const month = 30 * 86_400;

    expect(await listed(now + 9, 'pending')).toEqual([]);
    expect(await listed(now + 8 + month, 'all')).toEqual([id]);
    expect(await listed(now + 9 + month, 'all')).toEqual([]);
    await insertInvitations(stores.db, [], now + 9 + month);
    expect(await countInvitations(stores.db, org)).toBe(0);
  });

  test('an invitation is revoked by its own organization only, and existing members stay', async () => {
    const tokenHash = randomUUID();
    const id = `invitation_${randomUUID()}`;
    const made = { id, organizationId: org, createdAt: now, role: 'owner' } as const;
    const offer = { groupIds: [], note: '', createdBy: 'operator', expiresAt: now + 9 };
    await insertInvitation(stores.db, { ...made, ...offer, tokenHash });
    const member = await person('member');

    const again = await acceptInvitation(stores.db, tokenHash, { id: member }, now);
    const foreign = await revokeInvitation(stores.db, 'org_x', id);
    const own = await revokeInvitation(stores.db, org, id);

    expect([again, foreign, own]).toEqual(['member-already', false, true]);
    expect(await roleOf(member)).toBe('member');
    expect(await findInvitation(stores.db, tokenHash, now)).toBeUndefined();
  });

  test('organization settings keep their values until each is changed', async () => {
    const name = org.replace('_', '-');

    const before = await findSettings(stores.db, name);
    await updateSettings(stores.db, org, { secondFactorRequired: true });
    await updateSettings(stores.db, org, { openClientsAllowed: false });
    const closed = await findSettings(stores.db, name);
    await updateSettings(stores.db, org, {
      singleSignOnRequired: true,
      latchkeyProxyAllowed: false,
      callRetentionDays: 30,
      leaverResources: 'keep',
      invitedScimGroups: true,
    });

    const allowed = {
      singleSignOnRequired: false,
      openClientsAllowed: true,
      latchkeyProxyAllowed: true,
      callRetentionDays: 90,
      leaverResources: 'suspend',
      invitedScimGroups: false,
    };
    expect(before).toEqual({ secondFactorRequired: false, ...allowed });
    expect(closed).toEqual({ secondFactorRequired: true, ...allowed, openClientsAllowed: false });
    expect(await findSettings(stores.db, name)).toEqual({
      secondFactorRequired: true,
      singleSignOnRequired: true,
      openClientsAllowed: false,
      latchkeyProxyAllowed: false,
      callRetentionDays: 30,
      leaverResources: 'keep',
      invitedScimGroups: true,
    });
    expect(await findSettings(stores.db, 'nothing')).toBeUndefined();
  });

  test('a TOTP code and a recovery code are each used once, and no earlier step is accepted', async () => {
    const userId = await person();
    await insertTotp(stores.db, { userId, sealedSecret: 'a', createdAt: now });
    await insertTotp(stores.db, { userId, sealedSecret: 'b', createdAt: now });
    const early = await spendTotpStep(stores.db, userId, 5);
    const confirm = (sealedSecret: string) =>
      markTotpConfirmed(stores.db, userId, {
        sealedSecret,
        step: 7,
        now,
        recoveryHashes: ['x', 'y'],
      });
    // The first secret was replaced.
    const confirmed = [await confirm('a'), await confirm('b'), await confirm('b')];

    const uses = await Promise.all(
      [7, 8, 8, 8, 6].map((step) => spendTotpStep(stores.db, userId, step)),
    );
    const codes = [
      await spendRecoveryCode(stores.db, 'user_other', 'x'),
      await spendRecoveryCode(stores.db, userId, 'x'),
      await spendRecoveryCode(stores.db, userId, 'x'),
    ];

    expect([early, confirmed]).toEqual([false, [false, true, false]]);
    expect([uses[0], uses[4]]).toEqual([false, false]);
    expect(uses.filter(Boolean)).toHaveLength(1);
    expect(codes).toEqual([false, true, false]);
    expect(await countRecoveryCodes(stores.db, userId)).toBe(1);
    expect(await insertTotp(stores.db, { userId, sealedSecret: 'c', createdAt: now })).toBe(false);
    expect([await deleteTotp(stores.db, userId), await deleteTotp(stores.db, userId)]).toEqual([
      true,
      false,
    ]);
    expect(await countRecoveryCodes(stores.db, userId)).toBe(0);
  });
});
