import { afterEach, beforeEach, expect, test } from 'vitest';

import {
  requestCreate,
  requestDecline,
  requestGrant,
  requestList,
  requestRead,
  requestReadOwn,
  requestWithdraw,
} from '#server/admin/access-requests';
import { groupCreate, groupRead } from '#server/admin/groups';
import { mailServerSet } from '#server/admin/mail';
import type { Actor } from '#server/admin/operation';
import { serverGroupsSet } from '#server/admin/server-access';
import { serverUpdate } from '#server/admin/servers';
import { administered, type Administered } from '#support/administered';
import { deadMailServer } from '#support/mail-setup';
import { newestEvents } from '#support/newest-events';

const organization = 'acme';
const server = 'web';
let at: Administered;
let owner: Actor;
let dana: Actor;
let sales: string;
let support: string;

/** Only the group Sales may use the server, and others may request access. */
beforeEach(async () => {
  at = await administered();
  [owner, dana] = [await at.person('owner'), await at.person('member')];
  const made = async (name: string) =>
    (await at.perform(groupCreate, { organization, name }, owner)).id;
  [sales, support] = [await made('Sales'), await made('Support')];
  await restrict({ accessRequests: true });
});
afterEach(() => at[Symbol.asyncDispose]());

const restrict = (but: object = {}) => {
  const choice = { organization, server, access: 'groups', groupIds: [sales], ...but };
  return at.perform(serverGroupsSet, choice, owner);
};
const ask = (reason = 'The quarter\n ends', by = dana) =>
  at.perform(requestCreate, { organization, server, reason }, by);
const grant = (requestId: string, groupId = sales) =>
  at.perform(requestGrant, { organization, requestId, groupId }, owner);
const decline = (requestId: string) =>
  at.perform(requestDecline, { organization, requestId, answer: 'Ask Eve' }, owner);
const open = async () =>
  (await at.perform(requestList, { organization }, owner)).items.map(({ id }) => id);
const refusal = (work: Promise<unknown>) => work.catch((error: unknown) => error);

test('access request: granted through a group, the person is in it, and both deeds are in the audit log', async () => {
  const { id, reason } = await ask();
  const { groups } = await at.perform(requestRead, { organization, requestId: id }, owner);

  const granted = await grant(id);

  expect([reason, groups]).toEqual(['The quarter ends', [{ id: sales, name: 'Sales' }]]);
  expect(granted).toMatchObject({ status: 'granted', group: 'Sales' });
  const { people } = await at.perform(groupRead, { organization, groupId: sales }, owner);
  expect(people.map(({ email }) => email)).toEqual([granted.email]);
  expect(await open()).toEqual([]);
  const events = await newestEvents(at.stores.db, 2);
  expect(events.map(({ action, target }) => `${action} ${target}`)).toEqual([
    `access-request.grant user:${granted.userId} server:acme/web group:${sales} request:${id}`,
    'access-request.create server:acme/web',
  ]);
});

test('211: access request: a group that does not open the server grants nothing', async () => {
  const { id } = await ask();

  expect(await refusal(grant(id, support))).toMatchObject({ code: 'invalid' });
  expect(await open()).toEqual([id]);
});

test('211: access request: declined with a word that the person reads, and then asked again', async () => {
  const { id } = await ask();
  await decline(id);

  const own = await at.perform(requestReadOwn, { organization, server }, dana);
  expect(own).toMatchObject({ status: 'declined', answer: 'Ask Eve' });
  expect(await refusal(grant(id))).toMatchObject({ code: 'conflict' });
  expect(await refusal(decline(id))).toMatchObject({ code: 'conflict' });
  expect((await ask('Eve says yes')).status).toBe('open');
});

test('211: access request: withdrawn by its person, it cannot be decided', async () => {
  const { id } = await ask();
  await at.perform(requestWithdraw, { organization, server }, dana);

  expect(await open()).toEqual([]);
  expect(await refusal(grant(id))).toMatchObject({ code: 'conflict' });
  const again = at.perform(requestWithdraw, { organization, server }, dana);
  expect(await refusal(again)).toMatchObject({ code: 'conflict' });
});

test('210: access request: a server that may not be asked for does not exist for members', async () => {
  await restrict({ accessRequests: false });
  const missing = { organization, server: 'nowhere', reason: 'x' };

  const hidden = await refusal(ask());
  expect(hidden).toMatchObject({ code: 'not_found', message: 'server not found' });
  expect(await refusal(at.perform(requestCreate, missing, dana))).toMatchObject({
    code: 'not_found',
    message: 'server not found',
  });
  const choice = { organization, server, access: 'groups', groupIds: [sales] };
  const kept = await at.perform(serverGroupsSet, choice, owner);
  expect(kept.accessRequests).toBe(false);
});

test('217: access request: once a server may not be asked for, its person reads its name but no longer its title', async () => {
  await ask();
  await at.perform(serverUpdate, { organization, server, title: 'Mergers 2027' }, owner);
  const listed = await at.perform(requestReadOwn, { organization, server }, dana);
  await restrict({ accessRequests: false });

  const own = await at.perform(requestReadOwn, { organization, server }, dana);
  const withdrawn = await at.perform(requestWithdraw, { organization, server }, dana);

  expect(listed.title).toBe('Mergers 2027');
  expect([own, withdrawn]).toMatchObject([
    { server, title: server, status: 'open' },
    { server, title: server, status: 'withdrawn' },
  ]);
});

test('210: access request: members neither see nor decide requests', async () => {
  const { id: requestId } = await ask();
  const kim = await at.person('member');
  const answer = { organization, requestId, answer: 'no' };
  const wanted = [
    at.perform(requestList, { organization }, kim),
    at.perform(requestGrant, { organization, requestId, groupId: sales }, kim),
    at.perform(requestDecline, answer, kim),
  ];

  expect(await Promise.all(wanted.map(refusal))).toMatchObject(
    wanted.map(() => ({ code: 'forbidden' })),
  );
  const own = at.perform(requestReadOwn, { organization, server }, kim);
  expect(await refusal(own)).toMatchObject({ code: 'not_found' });
});

test('access request: both sides get a mail where the organization sends mail', async () => {
  const { id } = await ask();
  const mails = () => at.stores.db.selectFrom('mail').select(['recipient', 'kind']).execute();
  const before = await mails();
  await at.perform(mailServerSet, { organization, ...deadMailServer }, owner);
  const second = await at.person('admin');
  await decline(id);
  await ask('again');

  expect(before).toEqual([]);
  const address = (actor: Actor) =>
    actor.type === 'person' ? actor.userId.replace('user_', 'p') + '@example.com' : '';
  expect((await mails()).map(({ recipient }) => recipient).toSorted()).toEqual(
    [owner, dana, second].map(address).toSorted(),
  );
});
