import { afterEach, beforeEach, expect, test } from 'vitest';

import {
  domainAdd,
  domainConfirm,
  domainList,
  domainProve,
  domainRemove,
} from '#server/admin/domains';
import { groupCreate } from '#server/admin/groups';
import type { Actor } from '#server/admin/operation';
import {
  providerCheck,
  providerCreate,
  providerDisable,
  providerEnable,
  providerList,
  providerRead,
  providerRemove,
  providerUpdate,
} from '#server/admin/identity-providers';
import { providerMembers, providerUnlink } from '#server/admin/linked-members';
import { settingsRead, settingsUpdate } from '#server/admin/organizations';
import { listProviders, noteProviderTest } from '#server/db/identity-providers';
import { linkMember } from '#server/db/member-identities';
import { findOrganization } from '#server/db/organizations';
import { insertPersonalToken } from '#server/db/personal-tokens';
import type { Role } from '#server/model/roles';
import { insertPasskey } from '#server/db/authenticators';
import { administered, type Administered } from '#support/administered';
import { lyingProvider } from '#support/lying-provider';

const organization = 'acme';
const clientSecret = 'the very secret of the client';
let at: Administered;
beforeEach(async () => {
  at = await administered();
});
afterEach(() => at[Symbol.asyncDispose]());

const fields = {
  organization,
  name: 'Acme ID',
  issuer: 'https://127.0.0.1:9',
  clientId: 'latchkey',
  clientSecret,
};
const create = (but: object = {}) => at.perform(providerCreate, { ...fields, ...but });
const acmeId = async () => (await findOrganization(at.stores.db, organization))?.id ?? '';
/** Stores the result of a successful test by an owner. */
const tested = async (id: string, by = 'user_x') => {
  const found = (await listProviders(at.stores.db, await acmeId())).find((one) => one.id === id);
  if (found) await noteProviderTest(at.stores.db, found, { at: at.clock.now(), by });
};

test('148: the client secret of a provider is stored sealed, and no view contains it', async () => {
  const made = await create();
  const place = { organization, providerId: made.id };
  const views = [
    made,
    await at.perform(providerRead, place),
    await at.perform(providerList, { organization }),
    await at.perform(providerUpdate, { ...place, clientSecret: `${clientSecret} two` }),
  ];
  const rows = at.stores.connection.prepare('select * from identity_provider').all();

  expect(made).toMatchObject({
    redirectUri: `http://127.0.0.1:8787/sign-in/provider/${made.id}/callback`,
    status: 'untested',
    groupsClaim: 'groups',
    joiningRole: 'nobody',
    emailTrusted: false,
    countsAsTwoFactors: false,
    members: 0,
  });
  expect(JSON.stringify([views, rows])).not.toContain(clientSecret);
});

test.each<[string, object, string]>([
  ['a private address', { issuer: 'https://10.0.0.7' }, 'issuer'],
  ['many tenants', { issuer: 'https://login.microsoftonline.com/common/v2.0' }, 'issuer'],
  ['a secret of two lines', { clientSecret: 'a\nb' }, 'clientSecret'],
  ['owners by group', { roleGroups: ['owner=it'] }, 'roleGroups.0'],
  ['owners by joining', { joiningRole: 'owner' }, 'joiningRole'],
  ['an unknown group', { joiningGroups: ['group_x'] }, 'joiningGroups'],
  ['a scope with a space', { scopes: ['a b'] }, 'scopes.0'],
])('148: a provider with %s is refused', async (_, but, field) => {
  await expect(create(but)).rejects.toMatchObject({ code: 'invalid', fields: [{ field }] });
});

test('148: addresses of an issuer where everybody has an account are never trusted', async () => {
  const { id } = await create();
  await at.stores.db
    .updateTable('identity_provider')
    .set({ issuer: 'https://accounts.google.com' })
    .execute();

  await expect(
    at.perform(providerUpdate, { organization, providerId: id, emailTrusted: true }),
  ).rejects.toMatchObject({ code: 'invalid', fields: [{ field: 'emailTrusted' }] });
});

/** A person who signed in a moment ago. */
const recent = async (role: Role, organizationOf = organization) => {
  const actor = await at.person(role, organizationOf);
  if (actor.type !== 'person') throw new TypeError('the operator');
  return { ...actor, provedAt: at.clock.now() };
};
const tokenOf = async (userId: string) => {
  const id = `token_of_${userId}`;
  const made = { id, userId, hash: id, hint: 'pat_…aaaa', name: 'script', factors: 1 as const };
  const times = { createdAt: at.clock.now(), expiresAt: at.clock.now() + 3600 };
  await insertPersonalToken(at.stores.db, { ...made, ...times }, 1);
  return { type: 'token', id } as const;
};

test('149: a provider is changed only after a recent sign-in, or with a personal token of two factors; disabling it is always possible', async () => {
  const { id: providerId } = await create();
  const place = { organization, providerId };
  const owner = await recent('owner');
  const code = (work: Promise<unknown>) =>
    work.then(
      () => 'done',
      (error: { code: string }) => error.code,
    );
  const codes = async (actor: Actor) => [
    await code(at.perform(providerCreate, { ...fields, issuer: 'https://127.0.0.1:8' }, actor)),
    await code(at.perform(providerUpdate, { ...place, name: 'Mine' }, actor)),
    await code(at.perform(providerEnable, place, actor)),
    await code(at.perform(providerUnlink, { ...place, userId: 'user_x' }, actor)),
    await code(at.perform(providerRemove, place, actor)),
  ];
  const late = { ...owner, provedAt: at.clock.now() - 600 };
  const script = { ...owner, provedAt: undefined, credential: await tokenOf(owner.userId) };
  const refused = [...(await codes(late)), ...(await codes({ ...script, factors: 1 }))];
  const disabled = await code(at.perform(providerDisable, place, late));

  expect(refused).toEqual(Array(10).fill('proof_old'));
  expect(disabled).toBe('done');
  expect(
    await code(at.perform(providerUpdate, { ...place, name: 'Ours' }, { ...script, factors: 2 })),
  ).toBe('done');
  expect(await codes(owner)).toEqual(['done', 'done', 'done', 'not_found', 'done']);
});

test('149: admins see providers and domains, and only owners change them, in their own organization', async () => {
  const [owner, admin, member] = [
    await recent('owner'),
    await recent('admin'),
    await recent('member'),
  ];
  const stranger = await recent('owner', 'other');
  const made = await at.perform(providerCreate, fields, owner);
  const place = { organization, providerId: made.id };
  const codes = async (actor: typeof owner, organizationOf = organization) => {
    const here = { ...place, organization: organizationOf };
    const outcome = (work: Promise<unknown>) =>
      work.then(
        () => 'done',
        ({ code }: { code: string }) => code,
      );
    return [
      await outcome(at.perform(providerRead, here, actor)),
      await outcome(at.perform(providerUpdate, { ...here, name: 'Mine' }, actor)),
      await outcome(at.perform(providerCheck, here, actor)),
      await outcome(at.perform(providerDisable, here, actor)),
      await outcome(at.perform(providerRemove, here, actor)),
      await outcome(
        at.perform(domainAdd, { organization: organizationOf, domain: 'acme.example' }, actor),
      ),
    ];
  };

  expect(await codes(admin)).toEqual(['done', ...Array(5).fill('forbidden')]);
  expect(await codes(member)).toEqual(Array(6).fill('forbidden'));
  expect(await codes(stranger)).toEqual(Array(6).fill('not_found'));
  expect(await codes(stranger, 'other')).toEqual([...Array(5).fill('not_found'), 'done']);
  expect(await codes(owner)).toEqual(Array(6).fill('done'));
});

test('a provider is changed, checked, disabled, enabled and removed', async () => {
  await using lying = await lyingProvider();
  const group = await at.perform(groupCreate, { organization, name: 'new' });
  const { id } = await create({ issuer: lying.issuer, scopes: ['groups'] });
  const place = { organization, providerId: id };
  const changed = await at.perform(providerUpdate, {
    ...place,
    joiningRole: 'member',
    joiningGroups: [group.id],
    roleGroups: ['admin=it'],
  });
  const cleared = await at.perform(providerUpdate, { ...place, joiningRole: 'nobody' });

  expect(changed).toMatchObject({
    joiningRole: 'member',
    joiningGroups: [group.id],
    roleGroups: ['admin=it'],
    scopes: ['groups'],
  });
  expect(cleared).toMatchObject({ joiningRole: 'nobody', joiningGroups: [group.id] });
  expect(await at.perform(providerCheck, place)).toEqual({
    isReady: true,
    fault: null,
    detail: null,
  });
  expect(await at.perform(providerDisable, place)).toMatchObject({ status: 'disabled' });
  expect(await at.perform(providerEnable, place)).toMatchObject({ status: 'untested' });
  expect(await at.perform(providerRemove, place)).toEqual({ id });
  await expect(at.perform(providerRead, place)).rejects.toMatchObject({ code: 'not_found' });
});

test('a provider is tested until its client changes', async () => {
  const { id } = await create();
  await tested(id);
  const place = { organization, providerId: id };
  const statusAfter = async (change: object) =>
    (await at.perform(providerUpdate, { ...place, ...change })).status;

  expect(await statusAfter({ name: 'Other', clientId: fields.clientId })).toBe('tested');
  expect(await statusAfter({ clientId: 'another' })).toBe('untested');
});

test('141: single sign-on is required only after a test of an owner, and while an owner has another way in', async () => {
  const owner = await recent('owner');
  const two = { ...owner, factors: 2 as const };
  const require = (required = true) =>
    at.perform(settingsUpdate, { organization, singleSignOnRequired: required }, two);
  const why = () =>
    require().then(
      () => 'required',
      ({ message }: Error) => message,
    );
  const { id } = await create();
  const untested = await why();
  await tested(id);
  const noWayIn = await why();
  await insertPasskey(at.stores.db, {
    id: 'passkey',
    userId: owner.userId,
    name: 'Key',
    publicKey: 'x',
    counter: 0,
    transports: [],
    createdAt: 1,
    lastUsedAt: undefined,
  });
  const required = await why();

  expect(untested).toContain('no owner has tested an identity provider');
  expect(noWayIn).toContain('no owner has a passkey or an authenticator app');
  expect(required).toBe('required');
  // The last provider can be neither disabled nor removed, and the owner keeps access.
  const place = { organization, providerId: id };
  const conflict = { code: 'conflict' };
  await expect(at.perform(providerDisable, place, two)).rejects.toMatchObject(conflict);
  await expect(at.perform(providerRemove, place, two)).rejects.toMatchObject(conflict);
  const admin = await at.person('admin');
  await expect(at.perform(settingsRead, { organization }, admin)).rejects.toMatchObject({
    code: 'forbidden',
    message: expect.stringContaining('requires single sign-on'),
  });
  // The operator removes the requirement.
  await at.perform(settingsUpdate, { organization, singleSignOnRequired: false });
  expect(await at.perform(settingsRead, { organization }, admin)).toMatchObject({
    singleSignOnRequired: false,
  });
});

test('142: a domain is proved by its DNS record alone, by one organization at a time', async () => {
  const owner = await at.person('owner');
  const domain = 'acme.example';
  const name = `_latchkey.${domain}`;
  const made = await at.perform(domainAdd, { organization, domain: ' ACME.example' }, owner);
  const theirs = await at.perform(domainAdd, { organization: 'other', domain });
  const prove = (of = organization) =>
    at.perform(domainProve, { organization: of, domain }).then(
      ({ status }) => status,
      ({ code }: { code: string }) => code,
    );

  expect(made).toMatchObject({ domain, status: 'unproved', recordName: name });
  expect(made.recordValue).toMatch(/^latchkey-domain=\w{24}$/);
  expect(await prove()).toBe('conflict');
  at.txt.set(name, 'ESERVFAIL');
  expect(await prove()).toBe('conflict');
  at.txt.set(name, [theirs.recordValue]);
  expect(await prove()).toBe('conflict');
  at.txt.set(name, [made.recordValue, theirs.recordValue]);
  expect([await prove(), await prove('other')]).toEqual(['proved', 'conflict']);
  // The domain changed hands.
  at.txt.set(name, [theirs.recordValue]);
  expect(await prove('other')).toBe('proved');
  expect((await at.perform(domainList, { organization })).items).toMatchObject([
    { domain, status: 'unproved', provedBy: null },
  ]);
});

test('142: only the operator confirms a domain without a record', async () => {
  const owner = await at.person('owner');
  const place = { organization, domain: 'acme.internal' };
  await at.perform(domainAdd, place, owner);

  await expect(at.perform(domainConfirm, place, owner)).rejects.toMatchObject({
    code: 'forbidden',
  });
  expect(await at.perform(domainConfirm, place)).toMatchObject({ provedBy: 'operator' });
  expect(await at.perform(domainRemove, place, owner)).toEqual({ domain: place.domain });
});

test.each(['acme', '192.0.2.1', 'a b.example', '_x.example', '-a.example', ''])(
  'the domain "%s" is refused',
  async (domain) => {
    await expect(at.perform(domainAdd, { organization, domain })).rejects.toMatchObject({
      code: 'invalid',
    });
  },
);

test('linked people are listed, and unlinked in their own organization alone', async () => {
  const member = await at.person('member');
  if (member.type !== 'person') throw new TypeError('an operator');
  const { userId } = member;
  const { id: providerId } = await create();
  const member_ = { organizationId: await acmeId(), userId };
  await linkMember(at.stores.db, { providerId, subject: 'there' }, member_, at.clock.now());
  const place = { organization, providerId };

  expect((await at.perform(providerMembers, place)).items).toMatchObject([
    { userId, subject: 'there' },
  ]);
  const foreign = { ...place, organization: 'other', userId };
  await expect(at.perform(providerUnlink, foreign)).rejects.toMatchObject({ code: 'not_found' });
  expect(await at.perform(providerUnlink, { ...place, userId })).toEqual({ userId });
  expect((await at.perform(providerMembers, place)).items).toEqual([]);
});
