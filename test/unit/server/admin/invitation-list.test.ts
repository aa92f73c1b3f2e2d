import { afterAll, beforeAll, expect, test } from 'vitest';

import { groupCreate } from '#server/admin/groups';
import { readInvitationList } from '#server/admin/invitation-list';
import {
  invitationImport,
  invitationPreview,
  invitationRenew,
} from '#server/admin/invitation-batches';
import { invitationCreate, invitationList } from '#server/admin/invitations';
import { AdministrationRefusal } from '#server/admin/refusal';
import { findInvitation } from '#server/db/invitations';
import { hashSecret } from '#server/secrets/secrets';
import { administered, type Administered } from '#support/administered';
import { newestEvents } from '#support/newest-events';

const organization = 'acme';
let at: Administered;
beforeAll(async () => {
  at = await administered();
  for (const name of ['Sales', 'R&D, Berlin'])
    await at.perform(groupCreate, { organization, name });
});
afterAll(() => at[Symbol.asyncDispose]());

const organizationId = async () =>
  (
    await at.stores.db
      .selectFrom('organization')
      .select('id')
      .where('name', '=', organization)
      .executeTakeFirstOrThrow()
  ).id;

/** The people of a list, as `email role groups`. */
async function read(list: string, by: 'owner' | 'admin' = 'owner') {
  const place = { organizationId: await organizationId(), by };
  const usual = { role: 'member', groupIds: [] } as const;
  const { people, ignored } = await readInvitationList(list, usual, place, at.ports);
  const lines = people.map(({ email, role, groups, skipped }) =>
    [email, role, ...groups.map(({ name }) => name), ...(skipped ? [`(${skipped})`] : [])].join(
      ' ',
    ),
  );
  return { lines, ignored };
}

const problems = async (list: string, by: 'owner' | 'admin' = 'owner') => {
  const refusal = await read(list, by).catch((error: unknown) => error);
  if (!(refusal instanceof AdministrationRefusal)) return refusal;
  return refusal.fields.map(({ field, problem }) => `${field} ${problem}`);
};

test.each([
  ['one address a line', 'a@x.org\nb@x.org', ['a@x.org member', 'b@x.org member']],
  [
    'a line of addresses',
    'a@x.org; b@x.org;\nc@x.org',
    ['a@x.org member', 'b@x.org member', 'c@x.org member'],
  ],
  [
    'signs after pasted addresses',
    'a@x.org, b@x.org;\nc@x.org.',
    ['a@x.org member', 'b@x.org member', 'c@x.org member'],
  ],
  ['a name before an address', 'Ann Lee <a@x.org>', ['a@x.org member']],
  ['columns in their usual order', 'a@x.org,Admin,Sales', ['a@x.org admin Sales']],
  ['named columns in another order', 'Groups;E-Mail\nsales;a@x.org', ['a@x.org member Sales']],
  ['several groups', 'a@x.org,,"Sales;R&D, Berlin"', ['a@x.org member Sales R&D, Berlin']],
  [
    'a group with a separator in its name',
    'a@x.org,viewer,"R&D, Berlin"',
    ['a@x.org viewer R&D, Berlin'],
  ],
])('invitation list: understands %s', async (_, list, expected) => {
  expect((await read(list)).lines).toEqual(expected);
});

test('invitation list: says which columns it does not use', async () => {
  expect((await read('name,email,Team\nAnn,a@x.org,1')).ignored).toEqual(['name', 'Team']);
});

test('invitation list: names each faulty line and its remedy', async () => {
  const list = 'a@x.org,boss\nnobody\n,viewer\nd@x.org,member,Slaes\ne@x.org\nf@x.org,a,b,c';

  expect(await problems(list)).toEqual([
    'list line 1: the role “boss” is unknown: use owner, admin, member, viewer',
    'list line 2: “nobody” is not an e-mail address, for example dana@example.com',
    'list line 3: has no address: add one, or remove the line',
    'list line 4: there is no group “Slaes”: correct its name, or create it under Groups',
    'list line 6: has more than 3 columns: put a cell that contains the separator in quotation marks',
  ]);
});

test.each([
  ['', 'list line 1: there is no address: paste at least one'],
  ['email,role', 'list line 1: there is no address below the names of the columns'],
  ['role,groups\nadmin,Sales', 'list line 1: no column is named email: name one so'],
  ['a@x.org\n"b@x.org', 'list line 2: a quotation mark is never closed: add the closing "'],
])('invitation list: %j is refused as a whole', async (list, problem) => {
  expect(await problems(list)).toEqual([problem]);
});

test('invitation list: an admin cannot invite an owner, an owner can', async () => {
  expect(await problems('a@x.org,owner', 'admin')).toEqual([
    'list line 1: only an owner can invite an owner: use admin, or ask an owner',
  ]);
  expect((await read('a@x.org,owner')).lines).toEqual(['a@x.org owner']);
});

test('invitation list: the 1001st person is refused by line, and of many problems the first fifty are named', async () => {
  const many = Array.from({ length: 1001 }, (_, index) => `p${index}@x.org`);

  expect((await read(many.slice(1).join('\n'))).lines).toHaveLength(1000);
  expect(await problems(many.join('\n'))).toEqual([
    'list line 1001: is past the limit of 1000 people: split the list',
  ]);
  expect(await problems('wrong\n'.repeat(60))).toHaveLength(51);
});

test('invitation import: members, invited people and repetitions are skipped, and everyone else gets a link', async () => {
  const member = await at.person('member');
  const email = `${member.type === 'person' ? member.userId.replace('user_', 'p') : ''}@example.com`;
  await at.perform(invitationCreate, { organization, role: 'viewer', email: 'Old@x.org' });
  const list = `${email.toUpperCase()}\nold@X.org\nnew@x.org,admin,Sales\nNew@x.org`;

  const preview = await at.perform(invitationPreview, { organization, list });
  const done = await at.perform(invitationImport, { organization, list });

  const skipped = [
    { line: 1, email: email.toUpperCase(), why: 'member' },
    { line: 2, email: 'old@X.org', why: 'invited' },
    { line: 4, email: 'New@x.org', why: 'repeated' },
  ];
  expect(preview).toMatchObject({
    items: [{ line: 3, role: 'admin', groups: ['Sales'] }],
    skipped,
  });
  expect(done).toMatchObject({
    items: [{ email: 'new@x.org', role: 'admin', status: 'pending' }],
    skipped,
  });
  const [entry, ofOne] = await newestEvents(at.stores.db, 2);
  expect(entry).toMatchObject({ action: 'invitation.import', target: '1 invitation' });
  expect(ofOne).toMatchObject({
    action: 'invitation.create',
    target: `invitation:${done.items[0]?.id}`,
  });
  const again = await at.perform(invitationPreview, { organization, list });
  expect(again.items).toEqual([]);
});

test('invitation: a member, or who is invited already, is not invited once more', async () => {
  const member = await at.person('viewer');
  const email = `${member.type === 'person' ? member.userId.replace('user_', 'P') : ''}@example.com`;
  const invite = (address: string) =>
    at.perform(invitationCreate, { organization, role: 'admin', email: address });
  await invite('twice@x.org');
  const before = await at.perform(invitationList, { organization });

  const [ofMember, again] = [invite(email), invite('TWICE@x.org')];

  await expect(ofMember).rejects.toMatchObject({
    code: 'conflict',
    message: `${email} is a member already: change their role or their groups instead`,
  });
  await expect(again).rejects.toMatchObject({
    code: 'conflict',
    message: 'TWICE@x.org is invited already: renew or revoke that invitation instead',
  });
  expect(await at.perform(invitationList, { organization })).toEqual(before);
  const other = { organization: 'other', role: 'admin', email };
  expect(await at.perform(invitationCreate, other)).toMatchObject({ email });
  at.clock.advance(8 * 86_400);
  expect(await invite('twice@x.org')).toMatchObject({ status: 'pending' });
});

test('invitation import: a faulty line means that no one is invited', async () => {
  const before = await at.perform(invitationList, { organization });
  const list = 'fine@x.org\nnot an address';

  const refused = at.perform(invitationImport, { organization, list });

  await expect(refused).rejects.toMatchObject({ code: 'invalid' });
  expect(await at.perform(invitationList, { organization })).toEqual(before);
});

test('invitation renewal: a pending invitation keeps its earlier links, an expired one does not', async () => {
  const works = async (path: string) =>
    Boolean(
      await findInvitation(at.stores.db, hashSecret(path.split('/')[2] ?? ''), at.clock.now()),
    );
  const made = await at.perform(invitationCreate, { organization, role: 'viewer', note: 'Zoe' });
  const invitationIds = [made.id];

  const first = await at.perform(invitationRenew, { organization, invitationIds });
  const early = [await works(made.path), await works(first.items[0]?.path ?? '')];
  at.clock.advance(8 * 86_400);
  const expired = await at.perform(invitationList, {
    organization,
    text: 'zoe',
    status: 'expired',
  });
  const late = [await works(made.path), await works(first.items[0]?.path ?? '')];
  const second = await at.perform(invitationRenew, { organization, all: 'expired' });

  expect([early, late]).toEqual([
    [true, true],
    [false, false],
  ]);
  expect(expired.items).toMatchObject([{ id: made.id, status: 'expired' }]);
  const renewed = second.items.find(({ id }) => id === made.id);
  expect(await works(renewed?.path ?? '')).toBe(true);
  expect([await works(made.path), await works(first.items[0]?.path ?? '')]).toEqual([false, false]);
});

test('invitation renewal: an admin cannot renew the invitation of an owner', async () => {
  const admin = await at.person('admin');
  const { id } = await at.perform(invitationCreate, { organization, role: 'owner' });

  const renewal = at.perform(invitationRenew, { organization, invitationIds: [id] }, admin);

  await expect(renewal).rejects.toMatchObject({ code: 'forbidden' });
});
