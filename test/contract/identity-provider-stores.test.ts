import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { insertGroup, insertGroupMapping, listGroupMembers, listGroups } from '#server/db/groups';
import {
  deleteProvider,
  findProvider,
  insertProvider,
  listProviders,
  noteProviderTest,
  updateProvider,
  type NewProvider,
} from '#server/db/identity-providers';
import {
  countLinkedMembers,
  findLinkedMember,
  insertJoiningMember,
  linkMember,
  listLinkedMembers,
  noteMemberSignIn,
  unlinkMember,
} from '#server/db/member-identities';
import {
  deleteDomain,
  endDomainProof,
  findDomain,
  findProvedDomain,
  insertDomain,
  listDomains,
  setDomainProof,
} from '#server/db/organization-domains';
import { insertOrganization } from '#server/db/organizations';
import { findMember, insertUser, listOpenMemberships, removeMember } from '#server/db/people';
import { insertSession, endSessionsThrough, useSession } from '#server/db/sessions';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { someProvider, storedProvider } from '#support/some-provider';

const now = 1_800_000_000;

await onEachDatabase('identity providers', ({ open }) => {
  let stores: TestDatabase;
  /** Two organizations, both with Dana as a member. */
  let acme: string;
  let other: string;
  let dana: string;
  beforeAll(async () => {
    stores = await open();
  });
  afterAll(() => stores[Symbol.asyncDispose]());
  beforeEach(async () => {
    dana = `user_${randomUUID()}`;
    const ids = [`org_${randomUUID()}`, `org_${randomUUID()}`] as const;
    [acme, other] = ids;
    const user = { id: dana, email: `${dana}@example.com`, createdAt: now };
    for (const id of ids) {
      await insertOrganization(stores.db, { id, name: id.replace('_', '-'), createdAt: now });
      await insertUser(stores.db, user, { organizationId: id, role: 'member' });
    }
  });

  const provider = async (organizationId: string, but: Partial<NewProvider> = {}) => {
    const made = someProvider({
      id: `idp_${randomUUID()}`,
      organizationId,
      scopes: ['groups'],
      emailTrusted: true,
      joiningRole: 'viewer',
      joiningGroups: ['group_x'],
      roleGroups: ['admin=boss'],
      assertionsAllowed: true,
      assertionClients: ['client_x'],
      assertionServers: ['srv_x'],
      nativeClientId: 'native',
      createdAt: now,
      ...but,
    });
    return { made, outcome: await insertProvider(stores.db, made, 2) };
  };
  const session = async (through?: { organizationId: string; providerId: string }) => {
    const tokenHash = randomUUID();
    await insertSession(stores.db, {
      id: `session_${randomUUID()}`,
      userId: dana,
      address: '127.0.0.1',
      userAgent: 'test',
      createdAt: now,
      usedAt: now,
      expiresAt: now + 3600,
      factors: 1,
      tokenHash,
      ...(through && { through: { ...through, acr: 'a', amr: ['pwd'], authTime: now - 5 } }),
    });
    return () => useSession(stores.db, tokenHash, now);
  };

  test('session through a provider: the person was seen in its organization only', async () => {
    const { made } = await provider(acme);
    const seen = async () => [
      (await findMember(stores.db, acme, dana))?.seenAt,
      (await findMember(stores.db, other, dana))?.seenAt,
    ];
    await session({ organizationId: acme, providerId: made.id });
    const through = await seen();
    await session();

    expect([through, await seen()]).toEqual([
      [now, undefined],
      [now, now],
    ]);
  });

  test('provider: two organizations may use one issuer, one organization once', async () => {
    const first = await provider(acme);
    const again = await provider(acme);
    const theirs = await provider(other);
    const second = await provider(acme, { issuer: 'https://second.example' });
    const third = await provider(acme, { issuer: 'https://third.example' });

    expect([first, again, theirs, second, third].map(({ outcome }) => outcome)).toEqual([
      'done',
      'taken',
      'done',
      'done',
      'full',
    ]);
    expect(await listProviders(stores.db, other)).toEqual([storedProvider(theirs.made)]);
  });

  test('provider: found while its organization is enabled', async () => {
    const { made } = await provider(acme);
    const before = await findProvider(stores.db, made.id);
    await stores.db
      .updateTable('organization')
      .set({ disabled_at: now })
      .where('id', '=', acme)
      .execute();

    expect(before).toMatchObject({ id: made.id, organization: acme.replace('_', '-') });
    expect(await findProvider(stores.db, made.id)).toBeUndefined();
  });

  test('provider: changed and deleted by its own organization alone', async () => {
    const { made } = await provider(acme);

    expect(await updateProvider(stores.db, other, made.id, { name: 'Theirs' })).toBe(false);
    expect(await deleteProvider(stores.db, other, made.id)).toBe(false);
    expect(await updateProvider(stores.db, acme, made.id, {})).toBe(true);
    expect(
      await updateProvider(stores.db, acme, made.id, { joiningRole: undefined, disabledAt: now }),
    ).toBe(true);
    expect(await findProvider(stores.db, made.id)).toMatchObject({
      name: 'Acme ID',
      joiningRole: undefined,
      disabledAt: now,
    });
    expect(await deleteProvider(stores.db, acme, made.id)).toBe(true);
  });

  test('provider: another client forgets the test, and a test of the client before does not count', async () => {
    const { made } = await provider(acme);
    const tested = { at: now, by: dana };
    await noteProviderTest(stores.db, made, tested);
    const before = await findProvider(stores.db, made.id);
    await updateProvider(stores.db, acme, made.id, { sealedSecret: 'next' });
    const changed = await findProvider(stores.db, made.id);
    await noteProviderTest(stores.db, made, tested);

    expect(before?.tested).toEqual(tested);
    expect(changed?.tested).toBeUndefined();
    expect((await findProvider(stores.db, made.id))?.tested).toBeUndefined();
  });

  test('link: one account for a member of a provider, and one member for an account', async () => {
    const { made } = await provider(acme);
    const lee = `user_${randomUUID()}`;
    const user = { id: lee, email: `${lee}@example.com`, createdAt: now };
    await insertUser(stores.db, user, { organizationId: acme, role: 'member' });
    const link = (subject: string, userId: string) =>
      linkMember(
        stores.db,
        { providerId: made.id, subject },
        { organizationId: acme, userId },
        now,
      );

    expect(await link('dana', dana)).toBe('done');
    expect(await link('dana', lee)).toBe('taken');
    expect(await link('dana of a new employee', dana)).toBe('taken');
    expect(await link('somebody', 'user_stranger')).toBe('stranger');
    expect(await findLinkedMember(stores.db, { providerId: made.id, subject: 'dana' })).toBe(dana);
    expect(await listLinkedMembers(stores.db, made.id, 10)).toMatchObject([
      { userId: dana, subject: 'dana', linkedAt: now, usedAt: now },
    ]);
    expect(await countLinkedMembers(stores.db, acme)).toEqual(new Map([[made.id, 1]]));
    expect(await unlinkMember(stores.db, other, made.id, dana)).toBe(false);
    expect(await unlinkMember(stores.db, acme, made.id, dana)).toBe(true);
    expect(await link('dana of a new employee', dana)).toBe('done');
  });

  test('link: ends with the membership, of that organization alone', async () => {
    const ours = await provider(acme);
    const theirs = await provider(other);
    for (const [{ made }, organizationId] of [
      [ours, acme],
      [theirs, other],
    ] as const) {
      const link = { providerId: made.id, subject: 'dana' };
      await linkMember(stores.db, link, { organizationId, userId: dana }, now);
    }
    const [here, there, whole] = [
      await session({ organizationId: acme, providerId: ours.made.id }),
      await session({ organizationId: other, providerId: theirs.made.id }),
      await session(),
    ];

    await removeMember(stores.db, acme, dana, 'member');

    const linked = ({ made }: typeof ours) =>
      findLinkedMember(stores.db, { providerId: made.id, subject: 'dana' });
    expect([await linked(ours), await linked(theirs)]).toEqual([undefined, dana]);
    expect(await here()).toBeUndefined();
    expect([(await there())?.userId, (await whole())?.userId]).toEqual([dana, dana]);
  });

  test('session: through a provider it opens one organization, and ends with the provider', async () => {
    const { made } = await provider(acme);
    const through = { organizationId: acme, providerId: made.id };
    const [limited, whole] = [await session(through), await session()];
    const opened = async (of: typeof limited) => {
      const found = await of();
      const list = found && (await listOpenMemberships(stores.db, found));
      return list?.map(({ organizationId }) => organizationId).toSorted();
    };

    expect((await limited())?.through).toEqual({
      ...through,
      providerSession: undefined,
      acr: 'a',
      amr: ['pwd'],
      authTime: now - 5,
    });
    expect((await whole())?.through).toBeUndefined();
    expect(await opened(limited)).toEqual([acme]);
    expect(await opened(whole)).toEqual([acme, other].toSorted());

    await deleteProvider(stores.db, acme, made.id);
    expect(await limited()).toBeUndefined();
    expect((await whole())?.userId).toBe(dana);
  });

  test('session: all of a provider end, and no others', async () => {
    const [one, two] = [
      await provider(acme),
      await provider(acme, { issuer: 'https://second.example' }),
    ];
    const [first, second] = [
      await session({ organizationId: acme, providerId: one.made.id }),
      await session({ organizationId: acme, providerId: two.made.id }),
    ];

    await endSessionsThrough(stores.db, one.made.id);

    expect(await first()).toBeUndefined();
    expect((await second())?.userId).toBe(dana);
  });

  test('groups: what a provider reports counts in its own organization, while it is enabled', async () => {
    const { made } = await provider(acme);
    const link = { providerId: made.id, subject: 'dana' };
    await linkMember(stores.db, link, { organizationId: acme, userId: dana }, now);
    const [ours, theirs] = [`group_${randomUUID()}`, `group_${randomUUID()}`];
    for (const [id, organizationId] of [
      [ours, acme],
      [theirs, other],
    ] as const) {
      await insertGroup(stores.db, { id, organizationId, name: 'sales', createdAt: now });
      await insertGroupMapping(stores.db, organizationId, 'sales there', id);
    }
    const signIn = { at: now + 9, email: 'dana@example.com', groups: ['sales there', 'more'] };
    const counts = async () => (await listGroups(stores.db, acme)).map((one) => one.memberCount);

    expect(await noteMemberSignIn(stores.db, link, signIn)).toBe(true);
    expect(await listGroupMembers(stores.db, ours)).toMatchObject([
      { userId: dana, source: 'provider' },
    ]);
    expect(await counts()).toEqual([1]);
    expect(await listGroupMembers(stores.db, theirs)).toEqual([]);

    await updateProvider(stores.db, acme, made.id, { disabledAt: now });
    expect(await listGroupMembers(stores.db, ours)).toEqual([]);
    await updateProvider(stores.db, acme, made.id, { disabledAt: undefined });
    await noteMemberSignIn(stores.db, link, { ...signIn, groups: [] });
    expect(await listGroupMembers(stores.db, ours)).toEqual([]);
    const unknown = { providerId: made.id, subject: 'nobody' };
    expect(await noteMemberSignIn(stores.db, unknown, signIn)).toBe(false);
  });

  test('joining: makes the person, the membership, the link and the existing groups, unless the address is taken', async () => {
    const { made } = await provider(acme);
    const group = `group_${randomUUID()}`;
    await insertGroup(stores.db, { id: group, organizationId: acme, name: 'new', createdAt: now });
    const id = `user_${randomUUID()}`;
    const user = { id, email: `${id}@example.com`, createdAt: now };
    const place = { organizationId: acme, role: 'viewer', groups: [group, 'group_gone'] } as const;
    const join = (subject: string, who: typeof user) =>
      insertJoiningMember(stores.db, { providerId: made.id, subject }, who, place);

    expect(await join('new', user)).toBe('done');
    expect(await listGroupMembers(stores.db, group)).toMatchObject([
      { userId: id, source: 'hand' },
    ]);
    expect(await join('again', { ...user, email: `${dana}@example.com` })).toBe('taken');
    expect(await findLinkedMember(stores.db, { providerId: made.id, subject: 'new' })).toBe(id);
  });

  test('domain: proved by one organization at a time', async () => {
    const domain = `${randomUUID()}.example`;
    const claim = (organizationId: string) =>
      insertDomain(
        stores.db,
        { organizationId, domain, verificationToken: `of ${organizationId}`, createdAt: now },
        1,
      );
    const prove = (organizationId: string, at = now) =>
      setDomainProof(stores.db, organizationId, domain, { by: 'dns', at });

    expect([await claim(acme), await claim(acme), await claim(other)]).toEqual([
      'done',
      'known',
      'done',
    ]);
    const more = { organizationId: acme, domain: 'more.example' };
    expect(
      await insertDomain(stores.db, { ...more, verificationToken: 't', createdAt: now }, 1),
    ).toBe('full');
    expect([await prove(acme), await prove(other), await prove('org_x')]).toEqual([
      'done',
      'taken',
      'taken',
    ]);
    expect(await prove(acme, now + 60)).toBe('done');
    expect((await findProvedDomain(stores.db, domain))?.proof).toEqual({
      by: 'dns',
      at: now,
      checkedAt: now + 60,
    });
    expect(await endDomainProof(stores.db, other, domain)).toBe(false);
    expect(await endDomainProof(stores.db, acme, domain)).toBe(true);
    expect([await prove(other), await prove(acme)]).toEqual(['done', 'taken']);
    expect((await findDomain(stores.db, acme, domain))?.proof).toBeUndefined();
    expect(await deleteDomain(stores.db, other, domain)).toBe(true);
    expect(await listDomains(stores.db, other)).toEqual([]);
    expect(await setDomainProof(stores.db, other, domain, { by: 'dns', at: now })).toBe('unknown');
  });

  test('domain: a proof of the operator does not end with the record', async () => {
    const domain = `${randomUUID()}.internal`;
    const claim = { organizationId: acme, domain, verificationToken: 't', createdAt: now };
    await insertDomain(stores.db, claim, 1);
    await setDomainProof(stores.db, acme, domain, { by: 'operator', at: now });

    expect(await endDomainProof(stores.db, acme, domain)).toBe(false);
    expect((await findProvedDomain(stores.db, domain))?.proof?.by).toBe('operator');
  });
});
