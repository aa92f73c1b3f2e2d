import { afterEach, beforeEach, expect, test } from 'vitest';

import { agentCreate } from '#server/admin/agents';
import { invitationCreate } from '#server/admin/invitations';
import { keyCreate, keyRead } from '#server/admin/keys';
import { leaverList } from '#server/admin/leavers';
import { personLeaving, personOffboard, personServers } from '#server/admin/offboarding';
import type { Actor } from '#server/admin/operation';
import { settingsUpdate } from '#server/admin/organizations';
import { personList, personRemove } from '#server/admin/people';
import { groupAddMember, groupCreate } from '#server/admin/groups';
import { serverGroupsSet } from '#server/admin/server-access';
import { serverCreate } from '#server/admin/servers';
import { acceptInvitation, insertInvitation } from '#server/db/invitations';
import { findOrganization } from '#server/db/organizations';
import { hashSecret, randomBase62 } from '#server/secrets/secrets';
import { administered, type Administered } from '#support/administered';
import { newestEvents } from '#support/newest-events';

const organization = 'acme';
let at: Administered;
let owner: Actor;
let dana: Actor;
let kim: Actor;
beforeEach(async () => {
  at = await administered();
  owner = await at.person('owner');
  [dana, kim] = [await at.person('admin'), await at.person('admin')];
});
afterEach(() => at[Symbol.asyncDispose]());

const idOf = (actor: Actor) => (actor.type === 'person' ? actor.userId : '');
const key = (name: string) =>
  at.perform(keyCreate, { organization, server: 'web', name }, dana).then(({ id }) => id);
const leaving = () => at.perform(personLeaving, { organization, userId: idOf(dana) }, owner);
const offboard = (but: object = {}, by = owner) =>
  at.perform(personOffboard, { organization, userId: idOf(dana), ...but }, by);
const works = async (keyId: string) => {
  const row = await at.stores.db
    .selectFrom('api_key')
    .select(['owner_id', 'suspended_at', 'revoked_at'])
    .where('id', '=', keyId)
    .executeTakeFirstOrThrow();
  if (row.revoked_at !== null) return 'revoked';
  return row.suspended_at === null ? row.owner_id : 'suspended';
};

test('offboarding: the preview counts what ends and lists what has no other owner', async () => {
  const id = await key('Nightly');
  await at.perform(invitationCreate, { organization, role: 'viewer' }, dana);

  const { owned, ends, suspends, person } = await leaving();

  expect(owned).toMatchObject([{ kind: 'key', id, name: 'Nightly', server: 'web' }]);
  expect(ends).toEqual({
    applications: 0,
    connections: 0,
    invitations: 1,
    invitationsTo: 0,
    sessions: 1,
    tokens: 0,
    scimTokens: 0,
    staysElsewhere: false,
  });
  expect([suspends, person.role]).toEqual([true, 'admin']);
});

test('offboarding: jobs are handed over to one person with exceptions, in one transaction with the removal', async () => {
  const [nightly, weekly, laptop] = [
    await key('Nightly'),
    await key('Weekly'),
    await key('Laptop'),
  ];
  const except = [
    { resourceId: weekly, to: idOf(kim) },
    { resourceId: laptop, to: 'revoke' },
  ];

  const done = await offboard({ to: idOf(owner), except });

  expect(done).toMatchObject({ handedOver: 2, revoked: 1, left: 0 });
  expect(await Promise.all([nightly, weekly, laptop].map(works))).toEqual([
    idOf(owner),
    idOf(kim),
    'revoked',
  ]);
  const { items } = await at.perform(personList, { organization }, owner);
  expect(items.map(({ id }) => id)).not.toContain(idOf(dana));
  const sessions = at.stores.db.selectFrom('browser_session').where('person_id', '=', idOf(dana));
  expect(await sessions.selectAll().execute()).toEqual([]);
  const events = await newestEvents(at.stores.db, 4);
  expect(new Set(events.map(({ action, target }) => `${action} ${target}`))).toEqual(
    new Set([
      `key.revoke key:${laptop}`,
      `leaver.hand-over key:${nightly} user:${idOf(owner)}`,
      `leaver.hand-over key:${weekly} user:${idOf(kim)}`,
      `person.offboard user:${idOf(dana)}`,
    ]),
  );
});

test('offboarding: what no one takes over is suspended and needs an owner, as after a deactivation', async () => {
  const nightly = await key('Nightly');

  const done = await offboard();

  expect(done).toMatchObject({ handedOver: 0, revoked: 0, left: 1 });
  expect(await works(nightly)).toBe('suspended');
  const { items } = await at.perform(leaverList, { organization }, owner);
  expect(items).toMatchObject([{ id: nightly, formerOwner: idOf(dana) }]);
  const events = await newestEvents(at.stores.db, 2);
  expect(events.map(({ action }) => action)).toContain('leaver.suspend');
});

const remove = () => at.perform(personRemove, { organization, userId: idOf(dana) }, owner);

test.each([
  ['offboarding', () => offboard()],
  ['removal', remove],
])('%s: no invitation to the address lets the person in again', async (_, leave) => {
  const { email } = (await leaving()).person;
  const invite = async (to: string, into = organization) => {
    const id = `invitation_${randomBase62(16)}`;
    const organizationId = (await findOrganization(at.stores.db, into))?.id ?? '';
    const offer = { role: 'admin', groupIds: [], note: '', createdBy: 'operator' } as const;
    const times = { createdAt: at.clock.now(), expiresAt: at.clock.now() + 60 };
    const whose = { id, organizationId, email: to, tokenHash: hashSecret(id) };
    await insertInvitation(at.stores.db, { ...offer, ...times, ...whose });
    return id;
  };
  const [own, other, foreign] = [
    await invite(email.toUpperCase()),
    await invite('zoe@example.com'),
    await invite(email, 'other'),
  ];
  const { ends } = await leaving();

  await leave();

  const comeBack = (id: string) =>
    acceptInvitation(at.stores.db, hashSecret(id), { id: idOf(dana) }, at.clock.now());
  expect(ends).toMatchObject({ invitations: 0, invitationsTo: 1 });
  expect(await comeBack(own)).toBe('invalid');
  expect([await comeBack(other), await comeBack(foreign)]).toEqual(['done', 'done']);
  const events = await newestEvents(at.stores.db, 4);
  expect(events.map(({ action, target }) => `${action} ${target}`)).toContain(
    `leaver.revoke-invitation invitation:${own} user:${idOf(dana)}`,
  );
});

test('offboarding: where the organization keeps what people leave, it goes on working', async () => {
  await at.perform(settingsUpdate, { organization, leaverResources: 'keep' }, owner);
  const nightly = await key('Nightly');

  const { suspends } = await leaving();
  await offboard();

  expect(suspends).toBe(false);
  expect(await works(nightly)).toBe(idOf(dana));
});

test('offboarding: an agent takes its keys along', async () => {
  await at.perform(agentCreate, { organization, name: 'berlin' }, dana);
  const { owned } = await leaving();
  const agent = owned.find(({ kind }) => kind === 'agent');
  const ofAgent = owned.find(({ kind }) => kind === 'key');

  const except = [{ resourceId: agent?.id ?? '', to: idOf(kim) }];
  const done = await offboard({ except });

  expect(ofAgent).toMatchObject({ agent: 'berlin' });
  expect(done).toMatchObject({ handedOver: 1, left: 0 });
  expect(await works(ofAgent?.id ?? '')).toBe(idOf(kim));
});

test('offboarding: only owners and admins can take over, and never the person who leaves', async () => {
  await key('Nightly');
  const member = await at.person('member');
  const stranger = await at.person('owner', 'other');
  const refusal = (to: Actor) => offboard({ to: idOf(to) }).catch((error: unknown) => error);

  expect(await refusal(member)).toMatchObject({ code: 'conflict' });
  expect(await refusal(stranger)).toMatchObject({ code: 'not_found' });
  expect(await refusal(dana)).toMatchObject({ code: 'conflict' });
  const { items } = await at.perform(personList, { organization }, owner);
  expect(items.map(({ id }) => id)).toContain(idOf(dana));
});

test('offboarding: an exception for something of someone else changes nothing', async () => {
  const foreign = await at.perform(keyCreate, { organization, server: 'web', name: 'Kim' }, kim);
  const except = [{ resourceId: foreign.id, to: 'revoke' }];

  await expect(offboard({ except })).rejects.toMatchObject({ code: 'conflict' });

  expect(await at.perform(keyRead, { organization, keyId: foreign.id }, owner)).toMatchObject({
    name: 'Kim',
  });
  expect((await leaving()).person.id).toBe(idOf(dana));
});

test('offboarding: an admin cannot offboard an owner, and the last owner stays', async () => {
  const userId = idOf(owner);
  const byAdmin = at.perform(personOffboard, { organization, userId }, dana);
  await expect(byAdmin).rejects.toMatchObject({ code: 'forbidden' });
  const last = at.perform(personOffboard, { organization, userId });
  await expect(last).rejects.toThrow('an organization must have an owner');
});

test('servers of a person: each with the groups that open it, or none if everyone may use it', async () => {
  const upstream = { kind: 'demo' };
  for (const name of ['crm', 'secret']) {
    await at.perform(serverCreate, { organization, name, upstream });
    const { id } = await at.perform(groupCreate, { organization, name: `of ${name}` });
    const restriction = { organization, server: name, access: 'groups', groupIds: [id] };
    await at.perform(serverGroupsSet, restriction);
    const member = { organization, groupId: id, userId: idOf(dana) };
    if (name === 'crm') await at.perform(groupAddMember, member);
  }

  const { items } = await at.perform(personServers, { organization, userId: idOf(dana) }, owner);

  expect(items.map(({ server, groups }) => [server, groups])).toEqual([
    ['crm', ['of crm']],
    ['web', []],
  ]);
});
