import { afterAll, beforeAll, expect, test } from 'vitest';

import { allowAssertedGrant, type Asserted, putAssertedGrant } from '#server/db/assertion-grants';
import { beginGrant, insertAuthorizationCode } from '#server/db/authorization-codes';
import { insertClient } from '#server/db/clients';
import { recordDevice, signOutDevice } from '#server/db/devices';
import { listDecisionsOfPerson, listGrantsOfPerson } from '#server/db/grants';
import { updateProvider } from '#server/db/identity-providers';
import { linkMember } from '#server/db/member-identities';
import { insertUser } from '#server/db/people';
import { type Db, transaction } from '#server/db/transaction';
import { type Connection, onEachDatabase, postgres, type TestDatabase } from '#support/databases';
import { makeServer, newClient } from '#support/made-records';
import { patient } from '#support/patient';
import { insertSomeProvider } from '#support/some-provider';
import { suite } from '#support/suite';
import { waitedFor } from '#support/waited-for';

const now = 1_800_000_000;
const owner = { userId: 'user_dana' };

/** Dana, a member of acme, and what her laptop gets there. Each round has another laptop, which got a grant at `sales` by an assertion. */
async function laptops(stores: TestDatabase) {
  await makeServer(stores, 'sales');
  await makeServer(stores, 'wiki');
  const user = { id: owner.userId, email: 'dana@example.com', createdAt: now };
  await insertUser(stores.db, user, { organizationId: 'org_acme', role: 'member' });
  await insertClient(stores.db, newClient());
  await insertSomeProvider(stores.db, { assertionsAllowed: true });
  const account = { providerId: 'idp_acme', subject: 'dana' };
  await linkMember(stores.db, account, { organizationId: 'org_acme', ...owner }, now);
  let round = 0;
  return async () => {
    await stores.db.deleteFrom('oauth_grant').execute();
    await stores.db.deleteFrom('device').execute();
    round += 1;
    const made = laptop(stores, round);
    await made.assert(stores.db, 'sales');
    return made;
  };
}

function laptop(stores: TestDatabase, round: number) {
  const id = `device_${round}`;
  const device = { id, claimHash: `hash ${round}`, name: 'laptop', system: 'Linux' };
  const subject = { ...owner, clientId: 'client_a' };
  const scopes = ['mcp:tools:read'] as const;
  const atWiki = {
    ...subject,
    grantId: `grant_wiki_${round}`,
    serverId: 'srv_wiki',
    scopes,
    tools: { type: 'all' },
  } as const;
  return {
    id,
    assert(db: Db, server: string): Promise<Asserted> {
      const asserted = { id: `grant_${server}_${round}`, ...subject, serverId: `srv_${server}` };
      const by = { providerId: 'idp_acme', authenticated: true, device };
      const grant = { ...asserted, ...by, scopes, expiresAt: now + 1000 };
      return putAssertedGrant(db, grant, now);
    },
    async consent(db: Db): Promise<void> {
      const deviceId = await recordDevice(db, owner.userId, device, now);
      const proof = { redirectUri: 'http://127.0.0.1/callback', codeChallenge: 'challenge' };
      const code = { hash: `code ${round}`, ...atWiki, ...proof, deviceId, expiresAt: now + 60 };
      await insertAuthorizationCode(db, code, now);
    },
    redeem(db: Db): Promise<boolean> {
      const { grantId, ...terms } = atWiki;
      const made = { redirectHost: '127.0.0.1', authenticated: false, createdAt: now };
      const grant = { id: grantId, ...terms, ...made, deviceId: id, expiresAt: now + 1000 };
      const token = { hash: `token ${round}`, expiresAt: now + 1000 };
      return beginGrant(db, `code ${round}`, grant, token);
    },
    signOut: (db: Db) => signOutDevice(db, id, owner, now),
    async active(): Promise<readonly string[]> {
      const grants = await listGrantsOfPerson(stores.db, owner.userId, now);
      return grants.map(({ serverPath }) => serverPath).toSorted();
    },
  };
}

await onEachDatabase('a device that is signed out', ({ open }) => {
  let stores: TestDatabase;
  let another: () => Promise<ReturnType<typeof laptop>>;
  beforeAll(async () => {
    stores = await open();
    another = await laptops(stores);
  });
  afterAll(() => stores[Symbol.asyncDispose]());

  test('224: device: a consent on it lets assertions give it access again at all servers of the organization', async () => {
    const one = await another();
    await one.signOut(stores.db);
    const refused = await one.assert(stores.db, 'sales');
    await one.consent(stores.db);
    await one.redeem(stores.db);

    expect(refused).toEqual({ outcome: 'signed-out' });
    expect(await one.assert(stores.db, 'sales')).toMatchObject({ outcome: 'granted', isNew: true });
    expect(await one.active()).toEqual(['acme/sales', 'acme/wiki']);
  });

  test('224: device: signed out where it had grants of a consent page only, it is refused assertions there', async () => {
    const one = await another();
    await stores.db.deleteFrom('oauth_grant').execute();
    await one.consent(stores.db);
    await one.redeem(stores.db);
    const ended = await one.signOut(stores.db);

    expect([...ended]).toEqual([['acme', 1]]);
    expect(await one.assert(stores.db, 'sales')).toEqual({ outcome: 'signed-out' });
    expect(await one.assert(stores.db, 'wiki')).toEqual({ outcome: 'signed-out' });
    const kept = await listDecisionsOfPerson(stores.db, owner.userId, now);
    expect(kept).toMatchObject([{ serverPath: 'acme/wiki', isByAssertion: true, revokedAt: now }]);
    expect(await allowAssertedGrant(stores.db, kept[0]?.id ?? '')).toBe(true);
    expect(await one.assert(stores.db, 'sales')).toMatchObject({ outcome: 'granted' });
  });

  test('224: device: where no provider vouches for people, nothing is kept of grants that were signed out', async () => {
    const one = await another();
    await updateProvider(stores.db, 'org_acme', 'idp_acme', { assertionsAllowed: false });
    await one.consent(stores.db);
    await one.redeem(stores.db);
    await one.signOut(stores.db);
    const kept = await listDecisionsOfPerson(stores.db, owner.userId, now);
    await updateProvider(stores.db, 'org_acme', 'idp_acme', { assertionsAllowed: true });

    expect(kept).toEqual([]);
  });
});

/** SQLite has one writer at a time. */
await suite('postgres', 'a device that is signed out in PostgreSQL', () => {
  let stores: TestDatabase;
  let other: Connection;
  let another: () => Promise<ReturnType<typeof laptop>>;
  beforeAll(async () => {
    stores = await postgres.open();
    other = await stores.connectAgain();
    another = await laptops(stores);
  });
  afterAll(() => stores[Symbol.asyncDispose]());

  /** Begins `work`, and resolves with its pending answer once `work` waits for `tx`, or is done without waiting. */
  const waiting = async <Result>(tx: Db, work: () => Promise<Result>) => {
    const isWaitedFor = await waitedFor(tx, stores);
    let isDone = false;
    const answer = work().finally(() => (isDone = true));
    await expect.poll(async () => isDone || (await isWaitedFor()), patient).toBe(true);
    return { answer };
  };

  test('224: device: a sign-out waits for an assertion that is being exchanged on it, and ends what that was granted', async () => {
    const one = await another();
    const { answer } = await transaction(stores.db, async (tx) => {
      await one.assert(tx, 'wiki');
      return waiting(tx, () => one.signOut(other.db));
    });
    const ended = await answer;

    expect([...ended]).toEqual([['acme', 2]]);
    expect(await one.active()).toEqual([]);
  });

  test('224: device: an assertion waits for a sign-out that has not ended yet, and is then refused', async () => {
    const one = await another();
    const { answer } = await transaction(stores.db, async (tx) => {
      await one.signOut(tx);
      return waiting(tx, () => one.assert(other.db, 'wiki'));
    });

    expect(await answer).toEqual({ outcome: 'signed-out' });
    expect(await one.active()).toEqual([]);
  });

  test('224: device: a sign-out waits for a consent that is being given on it, and deletes its code', async () => {
    const one = await another();
    const { answer } = await transaction(stores.db, async (tx) => {
      await one.consent(tx);
      return waiting(tx, () => one.signOut(other.db));
    });
    await answer;

    expect(await one.redeem(stores.db)).toBe(false);
    expect(await one.active()).toEqual([]);
  });

  test('224: device: a sign-out waits for a code that is being redeemed on it, and ends its grant', async () => {
    const one = await another();
    await one.consent(stores.db);
    const { answer } = await transaction(stores.db, async (tx) => {
      await one.redeem(tx);
      return waiting(tx, () => one.signOut(other.db));
    });
    const ended = await answer;

    expect([...ended]).toEqual([['acme', 2]]);
    expect(await one.active()).toEqual([]);
    expect(await one.assert(stores.db, 'sales')).toEqual({ outcome: 'signed-out' });
  });
});
