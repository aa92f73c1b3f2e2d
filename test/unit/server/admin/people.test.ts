import { afterAll, beforeAll, expect, test } from 'vitest';
import { findOrganization } from '#server/db/organizations';
import type { Actor } from '#server/admin/operation';
import { hashSecret } from '#server/secrets/secrets';
import { groupAddMember, groupCreate, groupDelete } from '#server/admin/groups';
import { serverGroupsSet } from '#server/admin/server-access';
import { invitationCreate, invitationList } from '#server/admin/invitations';
import {
  ownershipTransfer,
  personList,
  personRemove,
  personSetRole,
  secondFactorReset,
} from '#server/admin/people';
import { organizationCreate, settingsUpdate } from '#server/admin/organizations';
import { administered, type Administered } from '#support/administered';
import { findInvitation, acceptInvitation } from '#server/db/invitations';
import { hasIdentity, linkIdentity } from '#server/db/identities';
import { insertUser, changeRole, findUser, removeMember } from '#server/db/people';
import {
  insertPasskey,
  insertTotp,
  findTotp,
  listPasskeys,
  replacePasswordHash,
} from '#server/db/authenticators';
import { newestEvents } from '#support/newest-events';

const organization = 'acme';
let at: Administered;
beforeAll(async () => {
  at = await administered();
});
afterAll(() => at[Symbol.asyncDispose]());

const idOf = (actor: Actor) => (actor.type === 'person' ? actor.userId : '');
const recently = (actor: Actor): Actor =>
  actor.type === 'person' ? { ...actor, provedAt: at.clock.now() } : actor;

test('48: only an owner can add, change or remove an owner, and no one raises their own role', async () => {
  const [owner, admin, member] = [
    await at.person('owner'),
    await at.person('admin'),
    await at.person('member'),
  ];
  const set = (by: Actor, of: Actor, role: string) =>
    at.perform(personSetRole, { organization, userId: idOf(of), role }, by);
  const forbidden = { code: 'forbidden' };

  await expect(set(admin, admin, 'owner')).rejects.toMatchObject(forbidden);
  await expect(set(admin, member, 'owner')).rejects.toMatchObject(forbidden);
  await expect(set(admin, owner, 'viewer')).rejects.toMatchObject(forbidden);
  await expect(set(member, member, 'admin')).rejects.toMatchObject(forbidden);
  const removal = at.perform(personRemove, { organization, userId: idOf(owner) }, admin);
  await expect(removal).rejects.toMatchObject(forbidden);
  await expect(
    at.perform(invitationCreate, { organization, role: 'owner' }, admin),
  ).rejects.toMatchObject(forbidden);
  await expect(set(owner, owner, 'admin')).rejects.toMatchObject({ code: 'conflict' });
  expect(await set(admin, member, 'viewer')).toMatchObject({ role: 'viewer' });
});

test('48: an invitation is valid for as long as its author may create it', async () => {
  const owner = await at.person('owner');
  const [leaving, stepping] = [await at.person('owner'), await at.person('owner')];
  const hashes: string[] = [];
  for (const [by, role] of [
    [leaving, 'viewer'],
    [stepping, 'owner'],
    [stepping, 'admin'],
  ] as const) {
    const { path } = await at.perform(invitationCreate, { organization, role }, by);
    hashes.push(hashSecret(path.replace('/invitation/', '')));
  }
  const { db } = at.stores;
  const offered = () =>
    Promise.all(hashes.map(async (hash) => (await findInvitation(db, hash, at.clock.now()))?.role));
  const before = await offered();

  await at.perform(personRemove, { organization, userId: idOf(leaving) }, owner);
  await at.perform(personSetRole, { organization, userId: idOf(stepping), role: 'admin' }, owner);

  expect(before).toEqual(['viewer', 'owner', 'admin']);
  expect(await offered()).toEqual([undefined, undefined, 'admin']);
  const back = { id: idOf(leaving) };
  expect(await acceptInvitation(db, hashes[1] ?? '', back, at.clock.now())).toBe('invalid');
});

test('ownership is transferred by an owner who has just proved their identity', async () => {
  const [owner, heir] = [await at.person('owner'), await at.person('member')];
  const input = { organization, userId: idOf(heir) };

  const old = at.perform(ownershipTransfer, input, owner);
  await expect(old).rejects.toMatchObject({ code: 'proof_old' });
  const made = await at.perform(ownershipTransfer, input, recently(owner));

  expect(made).toMatchObject({ role: 'owner' });
  await changeRole(
    at.stores.db,
    (await findOrganization(at.stores.db, organization))?.id ?? '',
    idOf(owner),
    { from: 'admin', to: 'owner' },
  );
});

test('an administrator cannot weaken an account that belongs to another organization too, nor their own', async () => {
  const [admin, member] = [recently(await at.person('admin')), await at.person('member')];
  const user = await findUser(at.stores.db, idOf(member));
  const other = await findOrganization(at.stores.db, 'other');
  if (!user || !other) throw new Error('not made');
  await insertTotp(at.stores.db, { userId: user.id, sealedSecret: 's', createdAt: 1 });
  const reset = (userId: string) => at.perform(secondFactorReset, { organization, userId }, admin);

  await expect(reset(idOf(admin))).rejects.toMatchObject({ code: 'conflict' });
  await insertUser(at.stores.db, user, { organizationId: other.id, role: 'viewer' });
  await expect(reset(user.id)).rejects.toMatchObject({ code: 'forbidden' });
  await removeMember(at.stores.db, other.id, user.id, 'viewer');
  const passkey = { id: 'passkey_1', name: 'Phone', publicKey: 'AA', counter: 0, transports: [] };
  const times = { createdAt: 1, lastUsedAt: undefined };
  await insertPasskey(at.stores.db, { ...passkey, ...times, userId: user.id });
  await reset(user.id);

  expect(await findTotp(at.stores.db, user.id)).toBeUndefined();
  expect(await listPasskeys(at.stores.db, user.id)).toEqual([]);
  expect((await newestEvents(at.stores.db, 1))[0]).toMatchObject({
    action: 'person.reset-second-factor',
    target: `user:${user.id}`,
    outcome: 'done',
  });
});

test('a reset unlinks accounts, but never the only way to sign in', async () => {
  const owner = recently(await at.person('owner'));
  const { db } = at.stores;
  const resets: [string, boolean][] = [];
  for (const hasPassword of [true, false]) {
    const userId = idOf(await at.person('member'));
    if (hasPassword) await replacePasswordHash(db, userId, 'hash');
    await linkIdentity(db, { issuer: 'https://id.example', subject: userId, userId });
    const reset = at.perform(secondFactorReset, { organization, userId }, owner);
    const code = await reset.then(() => 'done', String);
    resets.push([code, await hasIdentity(db, 'https://id.example', userId)]);
  }

  expect(resets).toEqual([
    ['done', false],
    [expect.stringContaining('has no second factor'), true],
  ]);
});

test('a group that restricts a server cannot be deleted', async () => {
  const admin = await at.person('admin');
  const member = await at.person('member');
  const { id: groupId } = await at.perform(groupCreate, { organization, name: 'sales' }, admin);
  await at.perform(groupAddMember, { organization, groupId, userId: idOf(member) }, admin);
  const keep = (groupIds: string[], access = 'groups') =>
    at.perform(serverGroupsSet, { organization, server: 'web', access, groupIds }, admin);
  await keep([groupId]);

  const removal = at.perform(groupDelete, { organization, groupId }, admin);
  await expect(removal).rejects.toMatchObject({ code: 'conflict' });
  await expect(keep(['group_of_others'])).rejects.toMatchObject({ code: 'invalid' });
  await expect(keep([])).rejects.toMatchObject({ code: 'invalid' });
  await expect(keep([groupId], 'everyone')).rejects.toMatchObject({ code: 'invalid' });
  await keep([], 'everyone');

  expect(await at.perform(groupDelete, { organization, groupId }, admin)).toMatchObject({
    members: 1,
  });
});

test('86: an invitation shows its link once, and the log does not contain it', async () => {
  const admin = await at.person('admin');

  const made = await at.perform(
    invitationCreate,
    { organization, role: 'member', note: 'Eve' },
    admin,
  );
  const listed = await at.perform(invitationList, { organization }, admin);
  const token = made.path.split('/').at(-1) ?? '-';

  expect(made.expiresAt - made.createdAt).toBe(7 * 24 * 3600);
  expect(JSON.stringify(listed)).not.toContain(token);
  expect(JSON.stringify(await newestEvents(at.stores.db, 99))).not.toContain(token);
  const rows = at.stores.connection.prepare('select * from invitation').all();
  expect(JSON.stringify(rows)).not.toContain(token);
});

test('an owner without a second factor cannot require one of everyone', async () => {
  const owner = await at.person('owner');
  const change = { organization, secondFactorRequired: true };

  await expect(at.perform(settingsUpdate, change, owner)).rejects.toMatchObject({
    code: 'conflict',
  });
});

test('people are listed page by page', async () => {
  const first = await at.perform(personList, { organization, limit: 2 });
  const rest = await at.perform(personList, { organization, after: first.next ?? '', limit: 200 });

  expect(first.items).toHaveLength(2);
  expect(rest.next).toBeNull();
  expect(rest.items.map(({ email }) => email)).not.toContain(first.items[1]?.email);
});

test('no one is left out or listed twice after an address in letters of another script', async () => {
  const { id: organizationId } = await at.perform(organizationCreate, { name: 'wide' });
  const emails = ['ａnn@example.com', 'bea@example.com', 'ＣＡＬ@example.com', 'dee@example.com'];
  for (const [place, email] of emails.entries()) {
    const user = { id: `user_wide_${place}`, email, createdAt: 1 };
    await insertUser(at.stores.db, user, { organizationId, role: 'member' });
  }
  const listed: string[] = [];
  let after: string | null = '';
  for (let pages = 0; after !== null && pages < 9; pages += 1) {
    const asked: object = { organization: 'wide', limit: 1, ...(after && { after }) };
    const { items, next } = await at.perform(personList, { ...asked });
    listed.push(...items.map(({ email }) => email));
    after = next;
  }
  const found = await at.perform(personList, { organization: 'wide', text: 'Ｃal' });

  expect(listed).toEqual(emails);
  expect(found.items.map(({ email }) => email)).toEqual(['ＣＡＬ@example.com']);
});
