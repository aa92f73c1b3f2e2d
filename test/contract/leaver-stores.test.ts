import { afterEach, beforeEach, expect, test } from 'vitest';

import { announceLeaver } from '#server/accounts/leaving';
import { findAgent, insertAgent } from '#server/db/agents';
import { findClient, insertClient } from '#server/db/clients';
import { acceptInvitation, insertInvitation, renewInvitation } from '#server/db/invitations';
import { findKey, insertKey, revokeKey } from '#server/db/keys';
import {
  countEndings,
  countOwnerless,
  endLastAccess,
  handOver,
  listOwned,
  listOwnerless,
  listTakers,
  type OwnedKind,
} from '#server/db/leavers';
import { insertPersonalToken, usePersonalToken } from '#server/db/personal-tokens';
import { deleteUser, insertUser, removeMember } from '#server/db/people';
import { updateSettings } from '#server/db/settings';
import { insertSession, useSession } from '#server/db/sessions';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { madeAt, makeOrganization, makeServer, newClient, newKey } from '#support/made-records';

const now = madeAt + 60;
const place = { organization: 'acme', server: 'sales' };
const org = 'org_acme';
const dana = { id: 'user_dana', email: 'dana@example.com', createdAt: madeAt };
const lee = { id: 'user_lee', email: 'lee@example.com', createdAt: madeAt };

await onEachDatabase('what a person who leaves answered for', ({ open }) => {
  let database: TestDatabase;

  /** Dana, an admin, created a key, a client and an agent with its key; Lee is an owner and created nothing. */
  beforeEach(async () => {
    database = await open();
    const { db } = database;
    await makeServer(database, 'sales');
    await insertUser(db, lee, { organizationId: org, role: 'owner' });
    await insertUser(db, dana, { organizationId: org, role: 'admin' });
    const createdBy = 'user:user_dana';
    await insertKey(db, newKey({ createdBy }));
    await insertKey(db, newKey({ id: 'key_o', hash: 'hash of o', createdBy: 'operator' }));
    await insertClient(db, newClient({ createdBy }));
    const agent = { id: 'agent_a', organizationId: org, name: 'berlin', createdAt: madeAt };
    await insertAgent(db, { ...agent, createdBy });
    const owner = { type: 'agent', agentId: 'agent_a' } as const;
    const ofAgent = { id: 'key_g', hash: 'hash of g', name: 'berlin', owner, createdBy };
    await insertKey(db, newKey({ ...ofAgent, scopes: [] }));
  });
  afterEach(() => database[Symbol.asyncDispose]());

  const leave = () => removeMember(database.db, org, 'user_dana', 'admin');
  const byKey = (keyHash: string) => database.admissions.byKey({ ...place, keyHash, now });
  const byClient = () => database.admissions.byClient({ ...place, clientId: 'client_a' });
  const agent = () => database.agentDirectory.byKey({ keyHash: 'hash of g', now });
  const listed = async () =>
    (await listOwnerless(database.db, org, 10)).map(({ kind, id }) => `${kind} ${id}`);

  test('is suspended when the membership ends, and nothing else', async () => {
    const before = [await byKey('hash of a'), await byClient(), await agent()];
    await leave();

    expect(before).toMatchObject([
      { keyId: 'key_a', scopes: ['mcp:tools:read'] },
      { endpoint: { id: 'srv_sales' } },
      { keyId: 'key_g' },
    ]);
    expect(await byKey('hash of a')).toMatchObject({ suspension: 'owner_left', keyId: 'key_a' });
    expect(await byKey('hash of o')).not.toHaveProperty('suspension');
    expect(await byClient()).toMatchObject({ suspension: 'owner_left' });
    expect(await findClient(database.db, 'client_a')).toMatchObject({ isSuspended: true });
    expect(await findKey(database.db, 'key_a')).toMatchObject({ isSuspended: true });
    expect(await findAgent(database.db, 'agent_a')).toMatchObject({ isSuspended: true });
    expect(await agent()).toBeUndefined();
    expect([...(await database.agentDirectory.activeKeys(['key_g'], now))]).toEqual([]);
  });

  test('is suspended too when the account is deleted', async () => {
    await deleteUser(database.db, 'user_dana');

    expect(await byKey('hash of a')).toMatchObject({ suspension: 'owner_left' });
    expect((await listOwnerless(database.db, org, 10))[0]).toMatchObject({
      formerOwner: 'user_dana',
      formerEmail: undefined,
    });
  });

  test('goes on where the organization chose to keep it, and needs an owner', async () => {
    await updateSettings(database.db, org, { leaverResources: 'keep' });
    await leave();

    expect(await byKey('hash of a')).not.toHaveProperty('suspension');
    expect(await byClient()).not.toHaveProperty('suspension');
    expect(await agent()).toMatchObject({ keyId: 'key_g' });
    expect(await listed()).toEqual(['agent agent_a', 'client client_a', 'key key_a', 'key key_g']);
    expect((await listOwnerless(database.db, org, 10))[0]).toMatchObject({ isSuspended: false });
  });

  test('is listed and counted until it is handed over or revoked', async () => {
    await leave();
    const first = await listOwnerless(database.db, org, 10);
    const counts = await countOwnerless(database.db, org, 'user_dana');
    await revokeKey(database.db, 'key_a', now);
    await handOver(database.db, org, { kind: 'client', id: 'client_a' }, 'user_lee');

    expect(counts).toEqual({ agent: 1, client: 1, key: 2 });
    expect(first).toContainEqual({
      kind: 'key',
      id: 'key_a',
      name: 'laptop',
      server: 'sales',
      agent: undefined,
      createdAt: expect.any(Number),
      lastUsedAt: undefined,
      formerOwner: 'user_dana',
      formerEmail: 'dana@example.com',
      ownerlessAt: expect.any(Number),
      isSuspended: true,
    });
    expect(await listed()).toEqual(['agent agent_a', 'key key_g']);
    expect(await countOwnerless(database.db, org)).toEqual({ agent: 1, client: 0, key: 1 });
  });

  test('is listed while the person is a member, with what else would end', async () => {
    const { db } = database;
    const owned = await listOwned(db, org, 'user_dana', 10);
    const endings = await countEndings(db, org, 'user_dana', now);
    await leave();

    expect(owned.map(({ kind, id }) => `${kind} ${id}`).toSorted()).toEqual([
      'agent agent_a',
      'client client_a',
      'key key_a',
      'key key_g',
    ]);
    expect(owned.find(({ id }) => id === 'key_g')).toMatchObject({ agent: 'berlin' });
    expect(endings).toEqual({
      applications: 0,
      connections: 0,
      invitations: 0,
      sessions: 0,
      tokens: 0,
      staysElsewhere: false,
    });
    expect(await listOwned(db, org, 'user_dana', 10)).toEqual([]);
    expect(await listTakers(db, org, ['owner', 'admin'], 'user_lee')).toEqual([]);
  });

  test('works again after a hand-over; an agent takes its keys along', async () => {
    await leave();
    const kinds: [OwnedKind, string][] = [
      ['key', 'key_a'],
      ['client', 'client_a'],
      ['agent', 'agent_a'],
    ];
    const handed = [];
    for (const [kind, id] of kinds) {
      handed.push(await handOver(database.db, org, { kind, id }, 'user_lee'));
    }

    expect(handed).toEqual(['done', 'done', 'done']);
    expect(await byKey('hash of a')).not.toHaveProperty('suspension');
    expect(await byClient()).not.toHaveProperty('suspension');
    expect(await agent()).toMatchObject({ keyId: 'key_g' });
    expect(await listed()).toEqual([]);
  });

  test('is the new owner’s from then on', async () => {
    await insertUser(
      database.db,
      { ...dana, id: 'user_kim', email: 'kim@example.com' },
      {
        organizationId: org,
        role: 'admin',
      },
    );
    await leave();
    await handOver(database.db, org, { kind: 'key', id: 'key_a' }, 'user_kim');
    await removeMember(database.db, org, 'user_kim', 'admin');

    expect(await byKey('hash of a')).toMatchObject({ suspension: 'owner_left' });
  });

  test('an invitation to the address of who left lets no one in, be it pending or expired', async () => {
    const { db } = database;
    await makeOrganization(database, 'other');
    const offer = { organizationId: org, role: 'admin', groupIds: [], note: '' } as const;
    const by = { createdBy: 'operator', createdAt: now, expiresAt: now + 60 };
    const invite = (id: string, email: string, but: object = {}) =>
      insertInvitation(db, { ...offer, ...by, id, tokenHash: id, email, ...but });
    await invite('pending', 'Dana@Example.com');
    await invite('expired', 'dana@example.com', { expiresAt: now - 1 });
    await invite('elsewhere', 'dana@example.com', { organizationId: 'org_other' });
    await invite('of lee', 'lee2@example.com');
    const comeBack = (id: string) => acceptInvitation(db, id, { id: 'user_dana' }, now);
    await leave();
    const source = { address: undefined, requestId: undefined };
    await announceLeaver(db, { id: org, name: 'acme' }, dana, now, source);

    expect(await comeBack('pending')).toBe('invalid');
    const renewal = { tokenHash: 'renewed', keepsLinks: false, createdBy: 'operator' };
    const times = { createdAt: now, expiresAt: now + 60 };
    expect(await renewInvitation(db, org, 'expired', { ...renewal, ...times })).toBe(false);
    expect([await comeBack('elsewhere'), await comeBack('of lee')]).toEqual(['done', 'done']);
  });

  test('is handed over to members only, by their organization alone, and only what needs an owner', async () => {
    await makeOrganization(database, 'other');
    const before = await handOver(database.db, org, { kind: 'key', id: 'key_a' }, 'user_lee');
    await leave();
    const hand = (organizationId: string, to: string) =>
      handOver(database.db, organizationId, { kind: 'key', id: 'key_a' }, to);
    await insertUser(database.db, lee, { organizationId: 'org_other', role: 'owner' });

    expect(before).toBe('unknown');
    expect(await hand(org, 'user_dana')).toBe('stranger');
    expect(await hand('org_other', 'user_lee')).toBe('unknown');
    expect(await byKey('hash of a')).toMatchObject({ suspension: 'owner_left' });
  });

  test('does not come back with the person', async () => {
    await leave();
    await insertUser(database.db, dana, { organizationId: org, role: 'admin' });

    expect(await byKey('hash of a')).toMatchObject({ suspension: 'owner_left' });
  });

  test('sessions and personal tokens end with the last membership, and not before', async () => {
    const { db } = database;
    await makeOrganization(database, 'other');
    await insertUser(db, dana, { organizationId: 'org_other', role: 'member' });
    await insertSession(db, {
      id: 'session_a',
      userId: 'user_dana',
      tokenHash: 'hash of session',
      address: '127.0.0.1',
      userAgent: 'test',
      createdAt: now,
      usedAt: now,
      expiresAt: now + 3600,
      factors: 1,
    });
    const token = { id: 'token_a', userId: 'user_dana', name: 'ci', hint: 'pat_…aaaa' };
    const life = { createdAt: now, expiresAt: now + 3600, factors: 1 } as const;
    await insertPersonalToken(db, { ...token, ...life, hash: 'hash of token' }, 10);
    const found = async () => [
      (await useSession(db, 'hash of session', now)) !== undefined,
      (await usePersonalToken(db, 'hash of token', now)) !== undefined,
    ];
    await leave();
    await endLastAccess(db, 'user_dana', now);
    const withOther = await found();
    await removeMember(db, 'org_other', 'user_dana', 'member');
    await endLastAccess(db, 'user_dana', now);

    expect(withOther).toEqual([true, true]);
    expect(await found()).toEqual([false, false]);
  });
});
