import { randomUUID } from 'node:crypto';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { findAuditedNames } from '#server/db/audit';
import {
  insertGroup,
  insertGroupMember,
  listGroupMembers,
  listGroups,
  renameGroup,
} from '#server/db/groups';
import { insertJoiningMember, linkMember } from '#server/db/member-identities';
import { acceptInvitation, insertInvitation } from '#server/db/invitations';
import { findMember, findUserByEmail, insertUser, removeMember } from '#server/db/people';
import {
  countScimGroups,
  deleteScimGroup,
  insertScimGroup,
  listScimGroups,
  listScimMembers,
  updateScimGroup,
  type MemberStep,
} from '#server/db/scim-groups';
import {
  insertScimToken,
  listScimFaults,
  listScimTokens,
  lockScimToken,
  noteScimFault,
  revokeScimToken,
  useScimToken,
} from '#server/db/scim-tokens';
import {
  countScimUsers,
  deleteScimUser,
  findScimUser,
  insertScimUser,
  listScimUsers,
  listWaiting,
  updateScimUser,
  type ScimUserFacts,
} from '#server/db/scim-users';
import { setServerAccess } from '#server/db/server-access';
import { updateSettings } from '#server/db/settings';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { madeAt, makeOrganization, makeServer } from '#support/made-records';
import { insertSomeProvider } from '#support/some-provider';

const now = madeAt + 60;
const org = 'org_acme';
const owner = { id: 'user_lee', email: 'lee@example.com', createdAt: madeAt };

await onEachDatabase('SCIM', ({ open }) => {
  let database: TestDatabase;
  beforeEach(async () => {
    database = await open();
    await makeServer(database, 'sales');
    await insertUser(database.db, owner, { organizationId: org, role: 'owner' });
  });
  afterEach(() => database[Symbol.asyncDispose]());

  const facts = (name: string, but: Partial<ScimUserFacts> = {}): ScimUserFacts => ({
    userName: `${name}@example.com`,
    externalId: `x-${name}`,
    attributes: { displayName: name },
    active: true,
    addresses: [`${name}@example.com`],
    ...but,
  });
  const context = (provenAddress: string | undefined) => ({
    now,
    provenAddress,
    newUserId: `user_${randomUUID().slice(0, 8)}`,
  });
  const add = (name: string, but: Partial<ScimUserFacts> = {}, ownsAddress = true) => {
    const all = facts(name, but);
    return insertScimUser(
      database.db,
      { id: `scim_${name}`, organizationId: org, ...all },
      context(ownsAddress ? all.addresses[0] : undefined),
    );
  };
  const change = (name: string, but: Partial<ScimUserFacts>, provenAddress?: string) => {
    const all = facts(name, but);
    return updateScimUser(
      database.db,
      { id: `scim_${name}`, organizationId: org, ...all },
      context(provenAddress ?? all.addresses[0]),
    );
  };
  const invite = (role: 'owner' | 'admin' | 'member', name: string, id = `user_${name}`) =>
    insertUser(
      database.db,
      { id, email: `${name}@example.com`, createdAt: madeAt },
      { organizationId: org, role },
    );
  const memberOf = async (name: string) => {
    const user = await findUserByEmail(database.db, `${name}@example.com`);
    return user && findMember(database.db, org, user.id);
  };

  test('user: a new one becomes a member by SCIM, with an account', async () => {
    const made = await add('dana');

    expect(made).toMatchObject({ outcome: 'done', effect: 'began', user: { active: true } });
    expect(await memberOf('dana')).toMatchObject({
      role: 'member',
      source: 'scim',
      isProvisioned: true,
    });
    expect(await findScimUser(database.db, org, 'scim_dana')).toEqual({
      id: 'scim_dana',
      organizationId: org,
      userId: (await memberOf('dana'))?.userId,
      userName: 'dana@example.com',
      externalId: 'x-dana',
      attributes: { displayName: 'dana' },
      active: true,
      createdAt: now,
      changedAt: now,
    });
  });

  test('user: waits where the organization does not own the address, or someone elsewhere has it', async () => {
    await makeOrganization(database, 'other');
    await insertUser(
      database.db,
      { id: 'user_kim', email: 'kim@example.com', createdAt: madeAt },
      { organizationId: 'org_other', role: 'member' },
    );
    await add('dana', {}, false);
    await add('kim');

    expect(await memberOf('dana')).toBeUndefined();
    expect(await findUserByEmail(database.db, 'dana@example.com')).toBeUndefined();
    expect(await memberOf('kim')).toBeUndefined();
    expect(await listWaiting(database.db, org, 10)).toEqual([
      'dana@example.com',
      'kim@example.com',
    ]);
    expect(await countScimUsers(database.db, org)).toEqual({ all: 2, active: 2, waiting: 2 });
  });

  test('user: no account is created with another address than the one that was proved', async () => {
    await add('dana', {}, false);
    const elsewhere = { addresses: ['dana@victim.example', 'dana@example.com'] };
    const other = await change('dana', elsewhere, 'dana@example.com');
    const proved = await change('dana', {}, 'dana@example.com');

    expect(other).toMatchObject({ outcome: 'done', effect: 'kept' });
    expect(await findUserByEmail(database.db, 'dana@victim.example')).toBeUndefined();
    expect(proved).toMatchObject({ outcome: 'done', effect: 'began' });
  });

  test('user: a member with the address is adopted, and keeps how they became one', async () => {
    await invite('admin', 'dana');
    const made = await add('dana', { userName: 'DLee', addresses: ['Dana@Example.com'] }, false);

    expect(made).toMatchObject({ outcome: 'done', effect: 'kept', user: { userId: 'user_dana' } });
    expect(await memberOf('dana')).toMatchObject({ role: 'admin', source: 'manual' });
  });

  test('user: names are unique regardless of case, and a member is linked once', async () => {
    await add('dana');

    expect(await add('x', { userName: 'DANA@example.com' })).toEqual({ outcome: 'taken' });
    expect(await add('y', { addresses: ['dana@example.com'] })).toEqual({ outcome: 'taken' });
    expect(await countScimUsers(database.db, org)).toMatchObject({ all: 1 });
    await add('kim');
    expect(await change('kim', { userName: 'dana@example.com' })).toEqual({ outcome: 'taken' });
    expect(await change('nobody', {})).toEqual({ outcome: 'unknown' });
  });

  test('user: another address or name changes the copy, never the account', async () => {
    await add('dana');
    await change('dana', {
      userName: 'married@example.com',
      attributes: { displayName: 'Dana M.' },
      addresses: ['married@example.com'],
    });

    expect(await memberOf('dana')).toBeDefined();
    expect(await findUserByEmail(database.db, 'married@example.com')).toBeUndefined();
    expect(await findScimUser(database.db, org, 'scim_dana')).toMatchObject({
      userName: 'married@example.com',
      attributes: { displayName: 'Dana M.' },
      userId: (await memberOf('dana'))?.userId,
    });
  });

  test('user: deactivation ends the membership, activation brings it back with its role', async () => {
    await invite('admin', 'dana');
    await add('dana');
    const ended = await change('dana', { active: false });
    const between = await memberOf('dana');
    const began = await change('dana', { active: true });

    expect([ended, began]).toMatchObject([{ effect: 'ended' }, { effect: 'began' }]);
    expect(between).toBeUndefined();
    expect(await memberOf('dana')).toMatchObject({ role: 'admin', source: 'scim' });
  });

  test('user: an owner who is deactivated comes back as an admin; the last one stays', async () => {
    await invite('owner', 'dana');
    await add('dana');
    await add('lee');
    await change('dana', { active: false });
    const last = await change('lee', { active: false });
    const deleted = await deleteScimUser(database.db, { id: 'scim_lee', organizationId: org }, now);
    await change('dana', { active: true });

    expect([last, deleted]).toEqual([{ outcome: 'last-owner' }, { outcome: 'last-owner' }]);
    expect(await findScimUser(database.db, org, 'scim_lee')).toMatchObject({ active: true });
    expect(await memberOf('lee')).toMatchObject({ role: 'owner' });
    expect(await memberOf('dana')).toMatchObject({ role: 'admin' });
  });

  test('user: deletion ends the membership, not the account', async () => {
    await add('dana');
    const deleted = await deleteScimUser(
      database.db,
      { id: 'scim_dana', organizationId: org },
      now,
    );

    expect(deleted).toMatchObject({ outcome: 'done', effect: 'ended' });
    expect(await memberOf('dana')).toBeUndefined();
    expect(await findUserByEmail(database.db, 'dana@example.com')).toBeDefined();
    expect(await findScimUser(database.db, org, 'scim_dana')).toBeUndefined();
  });

  test('user: an account that no one can enter is provisioned again, one with a password is not', async () => {
    const remove = () => deleteScimUser(database.db, { id: 'scim_dana', organizationId: org }, now);
    await add('dana');
    const { userId = '' } = (await memberOf('dana')) ?? {};
    await remove();
    const again = await add('dana');
    const same = (await memberOf('dana'))?.userId;
    await remove();
    const password = { person_id: userId, hash: 'hash' };
    await database.db.insertInto('password').values(password).execute();
    const claimed = await add('dana');

    expect([again, claimed]).toMatchObject([{ effect: 'began' }, { effect: 'kept' }]);
    expect(same).toBe(userId);
    expect(await memberOf('dana')).toBeUndefined();
  });

  test('user: another organization cannot read, change or delete it', async () => {
    await makeOrganization(database, 'other');
    await add('dana');
    const theirs = { id: 'scim_dana', organizationId: 'org_other' };
    const changed = await updateScimUser(
      database.db,
      { ...theirs, ...facts('dana', { active: false }) },
      context('dana@example.com'),
    );

    expect(changed).toEqual({ outcome: 'unknown' });
    expect(await deleteScimUser(database.db, theirs, now)).toEqual({ outcome: 'unknown' });
    expect(await findScimUser(database.db, 'org_other', 'scim_dana')).toBeUndefined();
    expect(await memberOf('dana')).toBeDefined();
  });

  test('user: an administrator who removes a member deactivates the entry', async () => {
    await add('dana');
    const { userId = '' } = (await memberOf('dana')) ?? {};
    await removeMember(database.db, org, userId, 'member');

    expect(await findScimUser(database.db, org, 'scim_dana')).toMatchObject({ active: false });
  });

  test('user: neither an invitation nor a sign-in lets in whom the directory deactivated', async () => {
    await add('dana');
    await change('dana', { active: false });
    await add('kim', { active: false });
    await provider();
    const accept = async (invitee: { id: string; email?: string }) => {
      const tokenHash = randomUUID();
      await insertInvitation(database.db, {
        id: `invitation_${tokenHash}`,
        tokenHash,
        organizationId: org,
        role: 'member',
        groupIds: [],
        note: '',
        createdBy: 'operator',
        createdAt: now,
        expiresAt: now + 100,
      });
      const { id, email } = invitee;
      const person = email === undefined ? { id } : { id, email, createdAt: now };
      return acceptInvitation(database.db, tokenHash, person, now);
    };
    const danas = (await findUserByEmail(database.db, 'dana@example.com'))?.id ?? '';
    const kim = { id: 'user_kim', email: 'kim@example.com', createdAt: now };
    const place = { organizationId: org, role: 'member', groups: [] } as const;
    const link = { providerId: 'idp_a', subject: 'kim' };

    expect(await accept({ id: danas })).toBe('deactivated');
    expect(await accept({ id: 'user_new', email: 'kim@example.com' })).toBe('deactivated');
    expect(await insertJoiningMember(database.db, link, kim, place)).toBe('deactivated');
    expect(await findUserByEmail(database.db, 'kim@example.com')).toBeUndefined();
    expect(await memberOf('dana')).toBeUndefined();
  });

  test('user: one that waits is linked when the person signs in or is invited', async () => {
    await add('dana', {}, false);
    await add('kim', {}, false);
    await provider();
    const dana = { id: 'user_dana', email: 'dana@example.com', createdAt: now };
    const place = { organizationId: org, role: 'viewer', groups: [] } as const;
    await insertJoiningMember(database.db, { providerId: 'idp_a', subject: 'd' }, dana, place);
    await invite('member', 'kim');

    expect(await memberOf('dana')).toMatchObject({ source: 'sso', isProvisioned: true });
    expect(await memberOf('kim')).toMatchObject({ source: 'manual', isProvisioned: true });
    expect(await listWaiting(database.db, org, 10)).toEqual([]);
  });

  test('user: an organization has a limit, which counts its own alone', async () => {
    await makeOrganization(database, 'other');
    const make = (name: string, organizationId: string) =>
      insertScimUser(
        database.db,
        { id: `scim_${name}`, organizationId, ...facts(name) },
        context(undefined),
        2,
      );
    await make('x', 'org_other');
    const made = [await make('a', org), await make('b', org), await make('c', org)];
    await deleteScimUser(database.db, { id: 'scim_a', organizationId: org }, now);

    expect(made).toMatchObject([{ outcome: 'done' }, { outcome: 'done' }, { outcome: 'full' }]);
    expect(await make('c', org)).toMatchObject({ outcome: 'done' });
  });

  test('users: listed by id, in pages, and narrowed by what they must have', async () => {
    for (const name of ['a', 'b', 'c']) await add(name);
    const ids = async (query: Parameters<typeof listScimUsers>[2]) =>
      (await listScimUsers(database.db, org, query)).map(({ id }) => id);

    expect(await ids({ limit: 2 })).toEqual(['scim_a', 'scim_b']);
    expect(await ids({ limit: 2, offset: 2 })).toEqual(['scim_c']);
    expect(await ids({ limit: 2, after: 'scim_a' })).toEqual(['scim_b', 'scim_c']);
    expect(await ids({ limit: 9, hint: { userName: 'B@EXAMPLE.COM' } })).toEqual(['scim_b']);
    expect(await ids({ limit: 9, hint: { externalId: 'x-c' } })).toEqual(['scim_c']);
    expect(await ids({ limit: 9, hint: { text: '"displayName":"A"' } })).toEqual(['scim_a']);
    expect(await ids({ limit: 9, hint: { id: 'scim_b' } })).toEqual(['scim_b']);
  });

  const provider = () =>
    insertSomeProvider(database.db, {
      id: 'idp_a',
      organizationId: org,
      joiningRole: 'viewer',
      createdAt: now,
    });
  const addGroup = (id: string, members: readonly string[] = [], displayName = id) =>
    insertScimGroup(
      database.db,
      { id, organizationId: org, displayName, externalId: undefined, members },
      now,
    );
  const step = (id: string, ...members: MemberStep[]) =>
    updateScimGroup(database.db, { id, organizationId: org }, { members }, now);
  const placed = async (id: string) =>
    (await listScimMembers(database.db, [id])).get(id)?.map((member) => member.id) ?? [];

  test('group: members are added, removed, replaced and cleared', async () => {
    for (const name of ['a', 'b', 'c']) await add(name);
    const made = await addGroup('group_1', ['scim_a', 'scim_a']);
    const again = await step('group_1', { type: 'add', ids: ['scim_a'] });
    const added = await step('group_1', { type: 'add', ids: ['scim_b', 'scim_c'] });
    const removed = await step('group_1', { type: 'remove', ids: ['scim_a', 'scim_x'] });
    const replaced = await step('group_1', { type: 'replace', ids: ['scim_a', 'scim_b'] });
    const stays = await placed('group_1');
    await step('group_1', { type: 'clear' });

    expect(made).toMatchObject({ outcome: 'done', added: 1 });
    expect(again).toMatchObject({ isChanged: false });
    expect([added, removed, replaced]).toMatchObject([
      { added: 2, removed: 0 },
      { added: 0, removed: 1 },
      { added: 1, removed: 1 },
    ]);
    expect(stays).toEqual(['scim_a', 'scim_b']);
    expect(await placed('group_1')).toEqual([]);
  });

  test('group: names are unique, members are entries of the organization', async () => {
    await makeOrganization(database, 'other');
    await insertScimUser(
      database.db,
      { id: 'scim_theirs', organizationId: 'org_other', ...facts('theirs') },
      context('theirs@example.com'),
    );
    await addGroup('group_1');

    expect(await addGroup('group_2', [], 'group_1')).toEqual({ outcome: 'taken' });
    expect(await addGroup('group_2', ['scim_theirs'])).toEqual({ outcome: 'stranger' });
    expect(await step('group_1', { type: 'add', ids: ['scim_theirs'] })).toEqual({
      outcome: 'stranger',
    });
    expect(await step('group_9')).toEqual({ outcome: 'unknown' });
    expect(await countScimGroups(database.db, org)).toBe(1);
    expect(await listGroups(database.db, org)).toHaveLength(1);
  });

  test('group: an organization has a limit of groups, and of members in all of them together', async () => {
    for (const name of ['a', 'b', 'c']) await add(name);
    const limits = { groups: 2, placed: 3 };
    const make = (id: string, members: readonly string[]) =>
      insertScimGroup(
        database.db,
        { id, organizationId: org, displayName: id, externalId: undefined, members },
        now,
        limits,
      );
    const apply = async (...members: MemberStep[]) => {
      const group = { id: 'group_2', organizationId: org };
      const { outcome } = await updateScimGroup(database.db, group, { members }, now, limits);
      return outcome;
    };
    const ids = ['scim_a', 'scim_b', 'scim_c'];
    await make('group_1', ['scim_a']);
    const crowded = await make('group_2', ids);
    const made = await make('group_2', ['scim_a', 'scim_b']);
    const full = await make('group_3', []);

    expect([crowded, made, full]).toMatchObject([
      { outcome: 'crowded' },
      { outcome: 'done' },
      { outcome: 'full' },
    ]);
    expect(await apply({ type: 'add', ids: ['scim_c'] })).toBe('crowded');
    expect(await apply({ type: 'replace', ids })).toBe('crowded');
    expect(await placed('group_2')).toEqual(['scim_a', 'scim_b']);
    expect(await apply({ type: 'add', ids: ['scim_a', 'scim_b'] })).toBe('done');
    expect(await apply({ type: 'remove', ids: ['scim_a'] }, { type: 'add', ids: ['scim_c'] })).toBe(
      'done',
    );
    expect(await apply({ type: 'clear' }, { type: 'add', ids: ['scim_a'] })).toBe('done');
    expect(await placed('group_2')).toEqual(['scim_a']);
  });

  test('group: members by hand, by sign-in and by SCIM do not undo each other', async () => {
    await insertGroup(database.db, {
      id: 'group_h',
      organizationId: org,
      name: 'Sales',
      createdAt: madeAt,
    });
    await add('dana');
    await add('kim');
    const hand = (await memberOf('dana'))?.userId ?? '';
    await insertGroupMember(database.db, org, 'group_h', hand);
    const adopted = await addGroup('group_new', ['scim_dana', 'scim_kim'], 'Sales');
    const both = await listGroupMembers(database.db, 'group_h');
    const [overview] = await listGroups(database.db, org);
    await step('group_h', { type: 'replace', ids: [] });

    expect(adopted).toMatchObject({ outcome: 'done', group: { id: 'group_h' } });
    expect(both.map(({ email, source }) => `${email} ${source}`)).toEqual([
      'dana@example.com hand',
      'kim@example.com scim',
    ]);
    expect(overview).toMatchObject({ memberCount: 2 });
    expect(await listGroupMembers(database.db, 'group_h')).toMatchObject([
      { email: 'dana@example.com', source: 'hand' },
    ]);
    await deleteScimGroup(database.db, { id: 'group_h', organizationId: org });
    expect(await listGroups(database.db, org)).toMatchObject([{ name: 'Sales', memberCount: 1 }]);
  });

  test('group: a directory may have names that differ in capitals only, which people cannot choose', async () => {
    const made = (id: string, name: string) =>
      insertGroup(database.db, { id, organizationId: org, name, createdAt: madeAt });
    const rename = (id: string, name: string) => renameGroup(database.db, org, id, name);
    const byHand = await made('group_h', 'Küche');
    const twin = await made('group_t', 'KÜCHE');
    const fromDirectory = await addGroup('group_s', [], 'küche');

    expect([byHand, twin]).toEqual([true, false]);
    expect(fromDirectory).toMatchObject({ outcome: 'done', group: { id: 'group_s' } });
    expect(await rename('group_h', 'KÜCHE')).toBe(false);
    // The group may keep its own name, get a new one, and change the capitals of that.
    expect(await rename('group_h', 'Küche')).toBe(true);
    expect(await rename('group_h', 'Kantine')).toBe(true);
    expect(await rename('group_h', 'KANTINE')).toBe(true);
    expect((await listGroups(database.db, org)).map(({ name }) => name).toSorted()).toEqual([
      'KANTINE',
      'küche',
    ]);
  });

  test('group: deleted if only the directory used it; otherwise its members leave', async () => {
    await add('dana');
    await addGroup('group_1', ['scim_dana']);
    await addGroup('group_2', ['scim_dana']);
    await setServerAccess(database.db, 'srv_sales', { access: 'groups', groupIds: ['group_2'] });
    const remove = (id: string) => deleteScimGroup(database.db, { id, organizationId: org });

    expect([await remove('group_1'), await remove('group_2')]).toMatchObject([
      { outcome: 'done', removed: 1 },
      { outcome: 'done', removed: 1 },
    ]);
    expect(await listGroups(database.db, org)).toMatchObject([{ id: 'group_2', memberCount: 0 }]);
    expect(await listScimGroups(database.db, org, { limit: 9 })).toEqual([]);
  });

  test('group: counts for an invited member only once a provider proved who they are, or the organization trusts addresses', async () => {
    await invite('member', 'dana');
    await add('dana');
    await addGroup('group_1', ['scim_dana']);
    await setServerAccess(database.db, 'srv_sales', { access: 'groups', groupIds: ['group_1'] });
    const admitted = async () =>
      (await database.admissions.byPerson({
        organization: 'acme',
        server: 'sales',
        userId: 'user_dana',
      })) !== undefined;
    const first = await admitted();
    await updateSettings(database.db, org, { invitedScimGroups: true });
    const trusted = await admitted();
    await updateSettings(database.db, org, { invitedScimGroups: false });
    const untrusted = await admitted();
    await provider();
    const place = { organizationId: org, userId: 'user_dana' };
    await linkMember(database.db, { providerId: 'idp_a', subject: 'd' }, place, now);

    expect([first, trusted, untrusted, await admitted()]).toEqual([false, true, false, true]);
  });

  test('group: a member who is placed elsewhere or deactivated loses its servers with the next call', async () => {
    await add('dana');
    const userId = (await memberOf('dana'))?.userId ?? '';
    await addGroup('group_1', ['scim_dana']);
    await setServerAccess(database.db, 'srv_sales', { access: 'groups', groupIds: ['group_1'] });
    const admitted = async () =>
      (await database.admissions.byPerson({ organization: 'acme', server: 'sales', userId })) !==
      undefined;
    const placedNow = await admitted();
    await step('group_1', { type: 'remove', ids: ['scim_dana'] });
    const removed = await admitted();
    await step('group_1', { type: 'add', ids: ['scim_dana'] });
    const again = await admitted();
    await change('dana', { active: false });
    const deactivated = await admitted();
    await change('dana', { active: true });

    expect([placedNow, removed, again, deactivated]).toEqual([true, false, true, false]);
    expect(await admitted()).toBe(true);
  });

  const token = (id: string, but: { expiresAt?: number; othersExpireAt?: number } = {}) =>
    insertScimToken(
      database.db,
      {
        id,
        organizationId: org,
        hash: `hash of ${id}`,
        hint: 'scim_…aaaa',
        createdBy: 'user:user_lee',
        createdAt: now,
        expiresAt: but.expiresAt,
      },
      { most: 2, othersExpireAt: but.othersExpireAt },
    );
  const use = (id: string, at = now, organization = 'acme') =>
    useScimToken(database.db, { organization, hash: `hash of ${id}`, now: at });

  test('token: opens its own organization, until it expires or is revoked', async () => {
    await makeOrganization(database, 'other');
    await token('t1', { expiresAt: now + 10 });
    const used = await use('t1');
    const revoked = await revokeScimToken(database.db, org, 't1', now);

    expect(used).toEqual({ organizationId: org, organization: 'acme', tokenId: 't1' });
    expect(await use('t1')).toBeUndefined();
    expect(revoked).toBe(true);
    expect(await revokeScimToken(database.db, org, 't1', now)).toBe(false);
    await token('t2', { expiresAt: now + 10 });
    expect(await use('t2', now + 10)).toBeUndefined();
    expect(await use('t2', now, 'other')).toBeUndefined();
    expect(await use('t2', now, 'nobody')).toBeUndefined();
    expect(await revokeScimToken(database.db, 'org_other', 't2', now)).toBe(false);
    expect(await lockScimToken(database.db, 't2', now)).toBe(true);
    expect(await lockScimToken(database.db, 't1', now)).toBe(false);
  });

  test('token: a rotation lets the others expire, within the limit of active ones', async () => {
    await token('t1');
    const second = await token('t2', { othersExpireAt: now + 5 });
    const third = await token('t3');

    expect([second, third]).toEqual([true, false]);
    expect(await use('t1', now + 4)).toBeDefined();
    expect(await use('t1', now + 5)).toBeUndefined();
    expect(await use('t2', now + 5)).toBeDefined();
    expect((await listScimTokens(database.db, org)).map(({ id }) => id).toSorted()).toEqual([
      't1',
      't2',
    ]);
  });

  test('audit log: people are named as the directory calls them, also after they left, in their organization alone', async () => {
    await makeOrganization(database, 'other');
    await add('dana');
    await add('wait', {}, false);
    const userId = (await memberOf('dana'))?.userId ?? '';
    await change('dana', { active: false });
    const ids = [userId, 'scim_dana', 'scim_wait'];

    expect([...(await findAuditedNames(database.db, 'acme', ids))]).toEqual(
      expect.arrayContaining([
        [userId, 'dana@example.com'],
        ['scim_dana', 'dana@example.com'],
        ['scim_wait', 'wait@example.com'],
      ]),
    );
    expect(await findAuditedNames(database.db, 'other', ids)).toEqual(new Map());
  });

  test('faults: equal ones are counted, the newest fifty are kept', async () => {
    const note = (subject: string, at: number) =>
      noteScimFault(database.db, org, {
        id: `fault_${randomUUID()}`,
        request: 'POST Users',
        subject,
        problem: 'the user name is taken',
        at,
      });
    for (let at = 0; at < 51; at += 1) await note(`user ${at}`, now + at);
    await note('user 50', now + 60);
    const faults = await listScimFaults(database.db, org);

    expect(faults).toHaveLength(50);
    expect(faults[0]).toEqual({
      request: 'POST Users',
      subject: 'user 50',
      problem: 'the user name is taken',
      at: now + 60,
      times: 2,
    });
    expect(faults.at(-1)).toMatchObject({ subject: 'user 1' });
  });
});
