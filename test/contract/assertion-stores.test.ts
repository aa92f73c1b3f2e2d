import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { allowAssertedGrant, putAssertedGrant } from '#server/db/assertion-grants';
import { listDevices, signOutDevice } from '#server/db/devices';
import { findClient, insertClient, listClients, revokeClient } from '#server/db/clients';
import {
  findGrant,
  listDecisionsOfPerson,
  listGrants,
  listGrantsOfPerson,
  revokeGrant,
} from '#server/db/grants';
import { deleteProvider, updateProvider } from '#server/db/identity-providers';
import { linkMember, unlinkMember } from '#server/db/member-identities';
import { insertUser, removeMember } from '#server/db/people';
import { revokeGrantsOfPerson } from '#server/db/person-grants';
import { updateSettings } from '#server/db/settings';
import { transaction } from '#server/db/transaction';
import {
  findTrustRule,
  insertTrustRule,
  isWorkloadIssuer,
  listTrustRules,
  updateTrustRule,
} from '#server/db/trust-rules';
import {
  findKnownGrant,
  findVouchingProvider,
  isProviderIssuer,
  lockMemberLink,
  lockVouchingProvider,
} from '#server/db/vouching-providers';
import { active } from '#server/gateway/admission';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { makeServer, newClient } from '#support/made-records';
import { insertSomeProvider } from '#support/some-provider';

const now = 1_800_000_000;
const issuer = 'https://id.example';

await onEachDatabase('assertions', ({ open }) => {
  let stores: TestDatabase;
  let dana: string;
  let clientId: string;
  let provider: string;
  beforeAll(async () => {
    stores = await open();
    await makeServer(stores, 'sales');
    await makeServer(stores, 'wiki');
    await makeServer(stores, 'other', { organization: 'other' });
  });
  afterAll(() => stores[Symbol.asyncDispose]());
  beforeEach(async () => {
    dana = `user_${randomUUID()}`;
    clientId = `client_${randomUUID()}`;
    provider = `idp_${randomUUID()}`;
    const user = { id: dana, email: `${dana}@example.com`, createdAt: now };
    await insertUser(stores.db, user, { organizationId: 'org_acme', role: 'member' });
    await insertClient(stores.db, ofOrganization());
    await insertSomeProvider(stores.db, {
      id: provider,
      issuer: issuer + provider,
      assertionsAllowed: true,
      createdAt: now,
    });
    await linkMember(
      stores.db,
      { providerId: provider, subject: dana },
      { organizationId: 'org_acme', userId: dana },
      now,
    );
  });

  const ofOrganization = () =>
    newClient({
      id: clientId,
      serverId: undefined,
      organizationId: 'org_acme',
      authenticationRequired: true,
      redirectUris: [],
      secretHash: undefined,
      secretHint: undefined,
    });
  const device = (name: string) => {
    return { id: `device_${name}_${dana}`, claimHash: name, name, system: 'Linux' };
  };
  const asserted = (but: { serverId?: string; providerId?: string; scopes?: [] } = {}) => ({
    id: `grant_${randomUUID()}`,
    userId: dana,
    clientId,
    serverId: 'srv_sales',
    providerId: provider,
    scopes: ['mcp:tools:read'] as const,
    authenticated: true,
    expiresAt: now + 1000,
    ...but,
  });
  const put = (but = {}) => putAssertedGrant(stores.db, asserted(but), now);
  const admits = async (id: string, server = 'sales') => {
    const grant = { id, userId: dana };
    const at = { organization: 'acme', server, clientId, tokenId: randomUUID(), grant };
    return active(await stores.admissions.byClient(at)) !== undefined;
  };

  test('grant by an assertion: there is one for each person, client and server, even of ten concurrent assertions', async () => {
    const all = await Promise.all(Array.from({ length: 10 }, () => put()));
    const ids = new Set(all.map((one) => (one.outcome === 'granted' ? one.id : one.outcome)));
    const elsewhere = await put({ serverId: 'srv_wiki' });

    expect([...ids]).toEqual([expect.stringMatching(/^grant_/)]);
    expect(all.filter((one) => one.outcome === 'granted' && one.isNew)).toHaveLength(1);
    expect(elsewhere).toMatchObject({ outcome: 'granted', isNew: true });
    expect(await listGrantsOfPerson(stores.db, dana, now)).toHaveLength(2);
  });

  test('grant by an assertion: a later one changes its scopes and its expiry, not its id', async () => {
    const first = await put();
    const scopes = ['mcp:tools:execute'] as const;
    const later = await put({ scopes, expiresAt: now + 200_000 });

    expect(first).toMatchObject({ outcome: 'granted', isNew: true });
    expect(later).toEqual({ ...first, isNew: false });
    const [grant] = await listGrantsOfPerson(stores.db, dana, now);
    expect(grant).toMatchObject({ scopes, expiresAt: now + 200_000, isByAssertion: true });
  });

  test('grant by an assertion: one that was revoked refuses the next, and stays listed until it is allowed again', async () => {
    const first = await put();
    const id = first.outcome === 'granted' ? first.id : '';
    expect(await admits(id)).toBe(true);
    await revokeGrant(stores.db, id, now);

    expect(await admits(id)).toBe(false);
    expect(await put()).toEqual({ outcome: 'withdrawn' });
    expect(await put({ expiresAt: now + 10_000_000 })).toEqual({ outcome: 'withdrawn' });
    expect(await listGrantsOfPerson(stores.db, dana, now)).toEqual([]);
    const far = now + 100_000_000;
    expect(await listDecisionsOfPerson(stores.db, dana, far)).toMatchObject([{ id }]);
    const query = { organizationId: 'org_acme', userId: dana, now: far, limit: 10, offset: 0 };
    expect((await listGrants(stores.db, query)).items).toMatchObject([{ id, revokedAt: now }]);
    expect(await allowAssertedGrant(stores.db, id)).toBe(true);
    expect(await allowAssertedGrant(stores.db, id)).toBe(false);
    expect(await put()).toMatchObject({ outcome: 'granted', isNew: true });
  });

  test('188: grant by an assertion: each device has its own, and a device that is signed out is refused until the person has signed in again', async () => {
    const [here, there] = [
      await put({ device: device('laptop') }),
      await put({ device: device('desk') }),
    ];
    const idOf = (one: typeof here) => (one.outcome === 'granted' ? one.id : '');
    const devices = (await listDevices(stores.db, { userId: dana }, now)).map(({ name }) => name);
    const ended = await signOutDevice(stores.db, device('laptop').id, { userId: dana }, now);
    const after = [await admits(idOf(here)), await admits(idOf(there))];

    expect(devices.toSorted()).toEqual(['desk', 'laptop']);
    expect([...ended]).toEqual([['acme', 1]]);
    expect(after).toEqual([false, true]);
    expect(await put({ device: device('laptop') })).toEqual({ outcome: 'signed-out' });
    // Nor does it get into another server of the organization, where it never was.
    expect(await put({ device: device('laptop'), serverId: 'srv_wiki' })).toEqual({
      outcome: 'signed-out',
    });
    expect(await put({ device: device('laptop'), signedInAt: now })).toEqual({
      outcome: 'signed-out',
    });
    expect(await put({ device: device('desk') })).toMatchObject({
      outcome: 'granted',
      isNew: false,
    });
    const again = await put({ device: device('laptop'), signedInAt: now + 1 });
    expect(again).toMatchObject({ outcome: 'granted', isNew: true });
    expect(await admits(idOf(again))).toBe(true);
  });

  test('188: grant by an assertion: one that is withdrawn refuses all devices, also new ones, however the person signed in', async () => {
    const [here, there] = [
      await put({ device: device('laptop') }),
      await put({ device: device('desk') }),
    ];
    const idOf = (one: typeof here) => (one.outcome === 'granted' ? one.id : '');
    await put();
    await revokeGrant(stores.db, idOf(here), now);
    const refused = [
      await put({ device: device('laptop'), signedInAt: now + 1 }),
      await put({ device: device('desk'), signedInAt: now + 1 }),
      await put({ signedInAt: now + 1 }),
      await put({ device: device('new'), signedInAt: now + 1 }),
    ];

    expect(new Set(refused.map(({ outcome }) => outcome))).toEqual(new Set(['withdrawn']));
    expect([await admits(idOf(here)), await admits(idOf(there))]).toEqual([false, false]);
    expect(await listDecisionsOfPerson(stores.db, dana, now)).toHaveLength(1);
    expect(await allowAssertedGrant(stores.db, idOf(here))).toBe(true);
    expect(await put({ device: device('desk') })).toMatchObject({
      outcome: 'granted',
      isNew: true,
    });
  });

  test('grant by an assertion: to allow what was signed out with a device allows all of that device', async () => {
    const laptop = device('laptop');
    const first = await put({ device: laptop });
    await put({ device: laptop, serverId: 'srv_wiki' });
    await signOutDevice(stores.db, laptop.id, { userId: dana }, now);

    expect(await put({ device: laptop })).toEqual({ outcome: 'signed-out' });
    expect(await allowAssertedGrant(stores.db, first.outcome === 'granted' ? first.id : '')).toBe(
      true,
    );
    expect(await put({ device: laptop })).toMatchObject({ outcome: 'granted', isNew: true });
    expect(await put({ device: laptop, serverId: 'srv_wiki' })).toMatchObject({ isNew: true });
  });

  test('grant by an assertion: what an account was granted is found for its device alone', async () => {
    const [here, without] = [await put({ device: device('laptop') }), await put()];
    const found = async (deviceHash: string) => {
      const at = { providerId: provider, subject: dana, clientId, organization: 'acme' };
      return findKnownGrant(stores.db, { ...at, server: 'sales', issuedAt: now, deviceHash });
    };

    expect([await found('laptop'), await found(''), await found('desk')]).toMatchObject([
      { id: here.outcome === 'granted' ? here.id : '' },
      { id: without.outcome === 'granted' ? without.id : '' },
      undefined,
    ]);
  });

  test('grant by an assertion: deleting a person whose devices were signed out deletes their grants', async () => {
    for (const one of [device('laptop'), device('desk')]) {
      await put({ device: one });
      await signOutDevice(stores.db, one.id, { userId: dana }, now);
    }
    await stores.db.deleteFrom('person').where('id', '=', dana).execute();
    const left = stores.db.selectFrom('oauth_grant').select('id').where('person_id', '=', dana);

    expect(await left.execute()).toEqual([]);
  });

  test('grant by an assertion: forgetting devices that were signed out refuses no other one', async () => {
    for (const one of [device('laptop'), device('desk')]) {
      await put({ device: one });
      await signOutDevice(stores.db, one.id, { userId: dana }, now);
    }
    await stores.db.deleteFrom('device').where('person_id', '=', dana).execute();

    expect(await put()).toMatchObject({ outcome: 'granted', isNew: true });
    expect(await put({ device: device('laptop') })).toMatchObject({
      outcome: 'granted',
      isNew: true,
    });
  });

  test('grant by an assertion: only one that was revoked can be allowed again', async () => {
    const first = await put();
    const id = first.outcome === 'granted' ? first.id : '';

    expect(await allowAssertedGrant(stores.db, id)).toBe(false);
    expect(await findGrant(stores.db, id)).toBeDefined();
  });

  test('grant by an assertion: a revocation and an assertion at once leave none that admits', async () => {
    const first = await put();
    const id = first.outcome === 'granted' ? first.id : '';
    const [, ...puts] = await Promise.all([
      revokeGrant(stores.db, id, now),
      ...Array.from({ length: 5 }, (_, at) => put({ expiresAt: now + 1e6 * (at + 1) })),
    ]);

    expect(puts.every((one) => one.outcome !== 'granted' || one.id === id)).toBe(true);
    expect(await admits(id)).toBe(false);
    expect(await put()).toEqual({ outcome: 'withdrawn' });
  });

  test.each<[string, () => Promise<unknown>]>([
    ['the provider is removed', () => deleteProvider(stores.db, 'org_acme', provider)],
    [
      'the provider is disabled',
      () => updateProvider(stores.db, 'org_acme', provider, { disabledAt: now }),
    ],
    [
      'assertions are switched off',
      () => updateProvider(stores.db, 'org_acme', provider, { assertionsAllowed: false }),
    ],
    [
      'other clients are allowed',
      () => updateProvider(stores.db, 'org_acme', provider, { assertionClients: ['client_x'] }),
    ],
    ['the person is unlinked', () => unlinkMember(stores.db, 'org_acme', provider, dana)],
    ['the person changes their password', () => revokeGrantsOfPerson(stores.db, dana, now)],
  ])('grant by an assertion: it ends when %s, without a refusal', async (_, act) => {
    const first = await put();
    const id = first.outcome === 'granted' ? first.id : '';
    await act();

    expect(await admits(id)).toBe(false);
    expect(await listDecisionsOfPerson(stores.db, dana, now)).toEqual([]);
  });

  test('grant by an assertion: what a person refused stays refused when the provider is removed', async () => {
    const first = await put();
    await revokeGrant(stores.db, first.outcome === 'granted' ? first.id : '', now);
    await deleteProvider(stores.db, 'org_acme', provider);

    expect(await listDecisionsOfPerson(stores.db, dana, now)).toHaveLength(1);
  });

  test('grant by an assertion: it ends with the membership', async () => {
    const first = await put();
    await removeMember(stores.db, 'org_acme', dana, 'member');

    expect(await admits(first.outcome === 'granted' ? first.id : '')).toBe(false);
  });

  test('grant by an assertion: it is unaffected when another person is unlinked', async () => {
    const first = await put();
    const lee = {
      id: `user_${randomUUID()}`,
      email: `${randomUUID()}@example.com`,
      createdAt: now,
    };
    const place = { organizationId: 'org_acme', userId: lee.id };
    await insertUser(stores.db, lee, { organizationId: 'org_acme', role: 'member' });
    await linkMember(stores.db, { providerId: provider, subject: lee.id }, place, now);
    await unlinkMember(stores.db, 'org_acme', provider, lee.id);

    expect(await admits(first.outcome === 'granted' ? first.id : '')).toBe(true);
  });

  test.each<[string, () => Promise<unknown>]>([
    [
      'disables the provider',
      () =>
        stores.db
          .updateTable('identity_provider')
          .set({ disabled_at: now })
          .where('id', '=', provider)
          .execute(),
    ],
    [
      'removes the provider',
      () => stores.db.deleteFrom('identity_provider').where('id', '=', provider).execute(),
    ],
    [
      'unlinks the person',
      () => stores.db.deleteFrom('member_identity').where('person_id', '=', dana).execute(),
    ],
  ])(
    'grant by an assertion: it ends when a node that does not know such grants %s, and what was withdrawn refuses',
    async (_, act) => {
      const first = await put();
      const second = await put({ serverId: 'srv_wiki' });
      const [id, withdrawn] = [first, second].map((one) =>
        one.outcome === 'granted' ? one.id : '',
      );
      await revokeGrant(stores.db, withdrawn ?? '', now);
      await act();

      expect(await admits(id ?? '')).toBe(false);
      expect(await listDecisionsOfPerson(stores.db, dana, now)).toMatchObject([{ id: withdrawn }]);
    },
  );

  test('grant by an assertion: an application that registered itself is admitted by it, and by no other where it is suspended', async () => {
    const id = `client_${randomUUID()}`;
    await insertClient(stores.db, newClient({ id, serverId: undefined, secretHash: undefined }));
    await updateSettings(stores.db, 'org_acme', { openClientsAllowed: false });
    const made = await put({ clientId: id });
    const grant = { id: made.outcome === 'granted' ? made.id : '', userId: dana };
    const at = { organization: 'acme', server: 'sales', clientId: id, tokenId: 'x', grant };
    const admitted = active(await stores.admissions.byClient(at));
    await updateSettings(stores.db, 'org_acme', { openClientsAllowed: true });

    expect(admitted).toBeDefined();
  });

  test('client of an organization: its own tokens are admitted at its servers alone', async () => {
    const at = { organization: 'acme', clientId, tokenId: 'x' };
    const other = { ...at, organization: 'other', server: 'other' };

    expect(active(await stores.admissions.byClient({ ...at, server: 'sales' }))).toBeDefined();
    expect(active(await stores.admissions.byClient({ ...at, server: 'wiki' }))).toBeDefined();
    expect(await stores.admissions.byClient(other)).toBeUndefined();
    await revokeClient(stores.db, clientId, now);
    expect(await stores.admissions.byClient({ ...at, server: 'sales' })).toBeUndefined();
  });

  test('client of an organization: it is listed there, at none of its servers, and is not removed as idle', async () => {
    const query = { organizationId: 'org_acme', sort: 'name', descending: false } as const;
    const all = await listClients(stores.db, { ...query, limit: 1000, offset: 0 });
    const ofSales = { ...query, serverId: 'srv_sales', limit: 1000, offset: 0 };
    const muchLater = newClient({ id: randomUUID(), serverId: undefined, secretHash: undefined });
    await insertClient(stores.db, { ...muchLater, createdAt: now + 1e9 });

    expect(all.items.find(({ id }) => id === clientId)).toMatchObject({
      organization: 'acme',
      serverId: undefined,
      serverPath: undefined,
    });
    expect((await listClients(stores.db, ofSales)).items.map(({ id }) => id)).not.toContain(
      clientId,
    );
    expect(await findClient(stores.db, clientId)).toMatchObject({ organization: 'acme' });
  });

  test('vouching provider: it is found by its issuer in its own organization, while it is enabled and switched on', async () => {
    const find = (organization = 'acme', iss = issuer + provider) =>
      findVouchingProvider(stores.db, organization, iss);

    expect(await find()).toMatchObject({ id: provider, organization: 'acme' });
    expect(await find('other')).toBeUndefined();
    expect(await find('acme', `${issuer + provider}/`)).toBeUndefined();
    await updateProvider(stores.db, 'org_acme', provider, { disabledAt: now });
    expect(await find()).toBeUndefined();
    await updateProvider(stores.db, 'org_acme', provider, { disabledAt: undefined });
    await updateProvider(stores.db, 'org_acme', provider, { assertionsAllowed: false });
    expect(await find()).toBeUndefined();
    expect(await isProviderIssuer(stores.db, 'org_acme', issuer + provider)).toBe(true);
    expect(await isProviderIssuer(stores.db, 'org_other', issuer + provider)).toBe(false);
  });

  test('vouching provider: one that was changed since it was read does not count', async () => {
    const found = await findVouchingProvider(stores.db, 'acme', issuer + provider);
    if (!found) throw new TypeError('no provider');
    const counts = () => transaction(stores.db, (tx) => lockVouchingProvider(tx, found));

    expect(await counts()).toBe(true);
    await updateProvider(stores.db, 'org_acme', provider, { assertionServers: ['srv_wiki'] });
    expect(await counts()).toBe(false);
    await updateProvider(stores.db, 'org_acme', provider, { assertionServers: [] });
    expect(await counts()).toBe(true);
    await updateProvider(stores.db, 'org_acme', provider, { keysUrl: 'https://id.example/keys' });
    expect(await counts()).toBe(false);
  });

  test('link of a member: it counts for its person alone, and until it is removed', async () => {
    const link = { providerId: provider, subject: dana };
    const counts = (userId = dana) =>
      transaction(stores.db, (tx) => lockMemberLink(tx, link, userId, now + 100));

    expect(await counts()).toBe(true);
    expect(await counts('user_other')).toBe(false);
    await unlinkMember(stores.db, 'org_acme', provider, dana);
    expect(await counts()).toBe(false);
  });

  test('trust rule: it is found by issuer, organization and server of its client, until that is revoked', async () => {
    const rule = {
      clientId,
      issuer: `https://ci.example/${clientId}`,
      keysUrl: undefined,
      jwks: '{"keys":[]}',
      audience: undefined,
      subject: 'repo:acme/app:*',
      claim: { name: 'repository_owner_id', value: '42' },
      longestLifeSeconds: 600,
      isSingleUse: true,
    };
    await insertTrustRule(stores.db, rule);
    const place = { issuer: rule.issuer, organizationId: 'org_acme', serverId: 'srv_sales' };
    const find = (but = {}) => listTrustRules(stores.db, { ...place, ...but });

    expect(await find()).toEqual([rule]);
    expect(await findTrustRule(stores.db, clientId)).toEqual(rule);
    expect(await find({ issuer: `${rule.issuer}/` })).toEqual([]);
    expect(await find({ organizationId: 'org_other', serverId: 'srv_other' })).toEqual([]);
    expect(await isWorkloadIssuer(stores.db, 'org_acme', rule.issuer)).toBe(true);
    expect(await isWorkloadIssuer(stores.db, 'org_other', rule.issuer)).toBe(false);
    const changed = { ...rule, jwks: undefined, claim: undefined, isSingleUse: false };
    expect(await updateTrustRule(stores.db, changed)).toBe(true);
    expect(await find()).toEqual([changed]);
    await revokeClient(stores.db, clientId, now);
    expect(await find()).toEqual([]);
    expect(await isWorkloadIssuer(stores.db, 'org_acme', rule.issuer)).toBe(false);
  });

  test('trust rule: one of a client of one server is found at no other', async () => {
    const id = `client_${randomUUID()}`;
    await insertClient(stores.db, newClient({ id, secretHash: undefined }));
    const rule = {
      clientId: id,
      issuer: `https://ci.example/${id}`,
      keysUrl: undefined,
      jwks: undefined,
      audience: undefined,
      subject: 'x',
      claim: undefined,
      longestLifeSeconds: 600,
      isSingleUse: false,
    };
    await insertTrustRule(stores.db, rule);
    const place = { issuer: rule.issuer, organizationId: 'org_acme' };

    expect(await listTrustRules(stores.db, { ...place, serverId: 'srv_sales' })).toHaveLength(1);
    expect(await listTrustRules(stores.db, { ...place, serverId: 'srv_wiki' })).toEqual([]);
  });
});
