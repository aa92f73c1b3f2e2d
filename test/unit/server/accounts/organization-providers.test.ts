import { afterEach, beforeEach, expect, test } from 'vitest';

import type { UpstreamIdentity } from '#server/accounts/openid-provider';
import {
  enterThrough,
  readRoleGroup,
  saysTwoFactors,
  usableProvider,
} from '#server/accounts/organization-providers';
import type { OpenStores } from '#server/app/stores';
import { everyRefusal } from '#server/audit/counted-refusals';
import { insertGroup, listGroupMembers } from '#server/db/groups';
import { updateProvider, type ProviderChange } from '#server/db/identity-providers';
import { linkMember } from '#server/db/member-identities';
import { findDomain, insertDomain, setDomainProof } from '#server/db/organization-domains';
import { insertOrganization } from '#server/db/organizations';
import { findMember, findUserByEmail, insertUser } from '#server/db/people';
import { masterKey } from '#server/secrets/master-key';
import { newestEvents } from '#support/newest-events';
import { openDatabase } from '#support/open-database';
import { loopbackProviders, type TxtRecords } from '#support/provider-setup';
import { insertSomeProvider } from '#support/some-provider';
import { turnedClock } from '#support/turned-clock';

const clock = turnedClock();
const visit = { address: '127.0.0.1', userAgent: 'test', requestId: 'r' };
const day = 86_400;
const records: TxtRecords = new Map();
let stores: OpenStores & AsyncDisposable;
/** Acme has the provider and the domain; Dana and Olga, its owner, are members. Eve belongs to another organization. */
beforeEach(async () => {
  stores = await openDatabase();
  records.clear();
  const { db } = stores;
  const createdAt = clock.now();
  for (const name of ['acme', 'other']) {
    await insertOrganization(db, { id: `org_${name}`, name, createdAt });
  }
  for (const [id, organizationId, role] of [
    ['dana', 'org_acme', 'member'],
    ['olga', 'org_acme', 'owner'],
    ['eve', 'org_other', 'owner'],
  ] as const) {
    const user = { id: `user_${id}`, email: `${id}@acme.example`, createdAt };
    await insertUser(db, user, { organizationId, role });
  }
  await insertSomeProvider(db, { createdAt });
  const claim = { domain: 'acme.example', verificationToken: 'token', createdAt };
  await insertDomain(db, { ...claim, organizationId: 'org_acme' }, 5);
  await setDomainProof(db, 'org_acme', 'acme.example', { by: 'dns', at: createdAt });
});
afterEach(() => stores[Symbol.asyncDispose]());

const identity = (but: Partial<UpstreamIdentity> = {}): UpstreamIdentity => ({
  issuer: 'https://id.example',
  subject: 'dana there',
  email: 'Dana@Acme.example',
  emailProof: 'verified',
  groups: [],
  issuedAt: clock.now(),
  authentication: { amr: [] },
  ...but,
});
const ports = () => ({
  ...stores,
  clock,
  refusals: everyRefusal({ ...stores, clock }),
  providerSetup: loopbackProviders(clock, records),
  sealing: masterKey(new Uint8Array(32)),
});
const change = (fields: ProviderChange) =>
  updateProvider(stores.db, 'org_acme', 'idp_acme', fields);
const enter = async (but?: Partial<UpstreamIdentity>) =>
  enterThrough(identity(but), await usableProvider(stores.db, 'idp_acme'), visit, ports());
const refusal = async (but?: Partial<UpstreamIdentity>) =>
  enter(but).then(
    ({ userId }) => `entered as ${userId}`,
    ({ code, message }: { code: string; message: string }) => `${code} ${message}`,
  );

test('142: a member with a verified address of a proved domain is linked once, and then known by the subject alone', async () => {
  const first = await enter();
  const later = await enter({ email: 'somebody@else.example', emailProof: 'unverified' });

  expect(first).toEqual({
    userId: 'user_dana',
    factors: 1,
    through: { organizationId: 'org_acme', providerId: 'idp_acme', amr: [] },
    from: {
      place: { type: 'organization', organizationId: 'org_acme', providerId: 'idp_acme' },
      subject: 'dana there',
      issuedAt: clock.now(),
      checkAfterSeconds: 3600,
    },
  });
  expect(later.userId).toBe('user_dana');
  const events = await newestEvents(stores.db, 9);
  expect(events.map(({ action, actor, target }) => [action, actor, target])).toEqual([
    ['sign-in', 'user:user_dana', 'provider:idp_acme'],
    ['sign-in', 'user:user_dana', 'provider:idp_acme'],
    ['provider.link', 'user:user_dana', 'provider:idp_acme'],
  ]);
});

test.each<[string, Partial<UpstreamIdentity>, string]>([
  ['no address', { email: undefined }, 'email-missing'],
  ['no address but a text', { email: 'dana' }, 'email-missing'],
  ['an address with an invisible character', { email: 'da\u200bna@acme.example' }, 'email-missing'],
  ['an unverified address', { emailProof: 'unverified' }, 'email-unverified'],
  ['an address about which nothing is said', { emailProof: 'unsaid' }, 'email-unverified'],
  ['an address that only the client trusted', { emailProof: 'trusted' }, 'email-unverified'],
  ['another domain', { email: 'dana@evil.example' }, 'domain-unproved'],
  ['a domain below the proved one', { email: 'dana@sub.acme.example' }, 'domain-unproved'],
  ['a member of another organization', { email: 'eve@acme.example' }, 'no-member'],
  ['nobody', { email: 'nobody@acme.example' }, 'no-member'],
])('142: %s links nothing, and the audit log says why', async (_, but, why) => {
  expect(await refusal(but)).toBe(`member_unknown ${why}`);
  expect((await newestEvents(stores.db, 9))[0]).toMatchObject({
    action: 'sign-in',
    outcome: 'refused',
    target: `provider:idp_acme ${why}`,
  });
});

test('142: an address without email_verified counts where the organization trusts its provider', async () => {
  await change({ emailTrusted: true });

  expect(await refusal({ emailProof: 'trusted' })).toBe('entered as user_dana');
});

test('173: the refresh token of a sign-in is sealed for its provider and account', async () => {
  const { from } = await enter({ refreshToken: 'rt of dana' });
  const sealed = from.sealedToken ?? '';
  const { sealing } = ports();

  expect(sealing.open('identity provider idp_acme refresh token of dana there', sealed)).toBe(
    'rt of dana',
  );
  expect(() =>
    sealing.open('identity provider idp_acme refresh token of eve there', sealed),
  ).toThrow(/authenticate/);
});

test('142: at Google, an account counts only in a domain that the organization has proved, also once it is linked', async () => {
  await stores.db
    .updateTable('identity_provider')
    .set({ issuer: 'https://accounts.google.com' })
    .execute();
  const issuer = 'https://accounts.google.com';
  const personal = await refusal({ issuer });
  const foreign = await refusal({ issuer, hostedDomain: 'evil.example' });
  const own = await refusal({ issuer, hostedDomain: 'acme.example' });
  const left = await refusal({ issuer });
  await stores.db
    .updateTable('organization_domain')
    .set({ proved_by: null, proved_at: null })
    .execute();
  const unproved = await refusal({ issuer, hostedDomain: 'acme.example' });

  expect([personal, foreign]).toEqual(Array(2).fill('member_unknown domain-foreign'));
  expect(own).toBe('entered as user_dana');
  expect([left, unproved]).toEqual(Array(2).fill('member_unknown domain-foreign'));
});

test('143: an address that was given to somebody else does not open the account that was linked by it', async () => {
  await enter();

  expect(await refusal({ subject: 'the next dana there' })).toBe('member_unknown other-account');
});

test('142: a domain that another organization proved links nothing here', async () => {
  const { db } = stores;
  const createdAt = clock.now();
  const domain = { domain: 'other.example', verificationToken: 't', createdAt };
  await insertDomain(db, { ...domain, organizationId: 'org_other' }, 5);
  await setDomainProof(db, 'org_other', 'other.example', { by: 'dns', at: createdAt });
  const lee = { id: 'user_lee', email: 'lee@other.example', createdAt };
  await insertUser(db, lee, { organizationId: 'org_acme', role: 'member' });

  expect(await refusal({ email: 'lee@other.example' })).toBe('member_unknown domain-unproved');
});

test('144: the record of a domain is checked again after a day; gone, the domain proves nothing any more', async () => {
  const name = '_latchkey.acme.example';
  const checkedAgain = async () => (await findDomain(stores.db, 'org_acme', 'acme.example'))?.proof;
  clock.advance(day);
  records.set(name, ['other=1', 'latchkey-domain=token']);
  const first = await refusal();
  const proof = await checkedAgain();
  clock.advance(day);
  records.set(name, 'ESERVFAIL');
  const unreachable = await refusal({ subject: 'olga there', email: 'olga@acme.example' });
  clock.advance(7 * day);
  const tooLong = await refusal({ subject: 'lee there', email: 'lee@acme.example' });
  const stillKept = await checkedAgain();
  records.set(name, ['latchkey-domain=of somebody else']);
  const gone = await refusal({ subject: 'lee there', email: 'lee@acme.example' });

  expect([first, unreachable]).toEqual(['entered as user_dana', 'entered as user_olga']);
  expect(proof?.checkedAt).toBe(clock.now() - 8 * day);
  expect([tooLong, gone]).toEqual([
    'member_unknown domain-unproved',
    'member_unknown domain-unproved',
  ]);
  expect(stillKept).toBeDefined();
  expect(await checkedAgain()).toBeUndefined();
  const actions = (await newestEvents(stores.db, 9)).map(({ action }) => action);
  expect(actions).toContain('domain.lose');
  // Linked people still enter: the domain only decided which person an address stands for.
  expect(await refusal()).toBe('entered as user_dana');
});

test('144: what the operator confirmed is not looked up', async () => {
  await setDomainProof(stores.db, 'org_acme', 'acme.example', { by: 'operator', at: clock.now() });
  clock.advance(30 * day);

  expect(await refusal()).toBe('entered as user_dana');
});

test('145: joining makes a member with the chosen role and groups, never from an address that has an account', async () => {
  await insertGroup(stores.db, {
    id: 'group_new',
    organizationId: 'org_acme',
    name: 'new',
    createdAt: clock.now(),
  });
  await change({ joiningRole: 'viewer', joiningGroups: ['group_new', 'group_gone'] });
  const joined = await enter({ subject: 'new there', email: 'new@acme.example' });
  const taken = await refusal({ subject: 'eve there', email: 'eve@acme.example' });

  expect(await findMember(stores.db, 'org_acme', joined.userId)).toMatchObject({ role: 'viewer' });
  expect(await listGroupMembers(stores.db, 'group_new')).toMatchObject([
    { userId: joined.userId, source: 'hand' },
  ]);
  expect(await findUserByEmail(stores.db, 'new@acme.example')).toBeDefined();
  expect(taken).toBe('member_unknown address-taken');
});

test('146: groups at the provider give the highest role that they stand for, never that of owners, and owners keep theirs', async () => {
  await change({ roleGroups: ['viewer=all', 'admin=it', 'owner=it', 'admin='] });
  const roleOf = async (userId: string) => (await findMember(stores.db, 'org_acme', userId))?.role;
  await enter({ groups: ['all', 'it'] });
  const promoted = await roleOf('user_dana');
  await enter({ groups: ['something else'] });
  const kept = await roleOf('user_dana');
  await enter({ groups: ['all'] });
  await enter({ subject: 'olga there', email: 'olga@acme.example', groups: ['all'] });

  expect([promoted, kept]).toEqual(['admin', 'admin']);
  expect([await roleOf('user_dana'), await roleOf('user_olga')]).toEqual(['viewer', 'owner']);
  expect(readRoleGroup('owner=it')).toBeUndefined();
});

test('147: a sign-in counts as two factors where the provider says so, or the organization decided so', async () => {
  const factorsOf = async (amr: readonly string[], acr?: string) =>
    (await enter({ authentication: { amr, acr } })).factors;
  const said = [await factorsOf(['pwd', 'mfa']), await factorsOf(['pwd']), await factorsOf([])];
  await change({ countsAsTwoFactors: true });

  expect(said).toEqual([2, 1, 1]);
  expect(await factorsOf(['pwd'])).toBe(2);
  expect(saysTwoFactors({ amr: [], acr: 'https://refeds.org/profile/mfa' })).toBe(true);
  expect(saysTwoFactors({ amr: [], acr: '1' })).toBe(false);
});

test('a disabled provider, and one of a disabled organization, cannot be used', async () => {
  const outcome = () =>
    usableProvider(stores.db, 'idp_acme').then(
      () => 'usable',
      ({ code }: { code: string }) => code,
    );
  await change({ disabledAt: clock.now() });
  const disabled = await outcome();
  await change({ disabledAt: undefined });
  const enabled = await outcome();
  await stores.db.updateTable('organization').set({ disabled_at: 1 }).execute();

  expect([disabled, enabled, await outcome()]).toEqual([
    'provider_unknown',
    'usable',
    'provider_unknown',
  ]);
});

test('a link that is removed while a person signs in opens nothing', async () => {
  const { db } = stores;
  const link = { providerId: 'idp_acme', subject: 'dana there' };
  await linkMember(db, link, { organizationId: 'org_acme', userId: 'user_dana' }, clock.now());
  const provider = await usableProvider(db, 'idp_acme');
  const removing = {
    ...ports(),
    clock: {
      ...clock,
      now: () => {
        // Called between the look-up and the transaction.
        void db.deleteFrom('member_identity').execute();
        return clock.now();
      },
    },
  };

  await expect(enterThrough(identity(), provider, visit, removing)).rejects.toMatchObject({
    code: 'member_unknown',
  });
});
