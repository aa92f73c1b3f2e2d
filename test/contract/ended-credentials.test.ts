import { expect, test } from 'vitest';
import { z } from 'zod';
import { type Actor, organizationOperation, perform, tokenActor } from '#server/admin/operation';
import { organizationList, organizationRead } from '#server/admin/organizations';
import { outboundList } from '#server/admin/outbound';
import { everyRefusal } from '#server/audit/counted-refusals';
import { insertUser, removeMember } from '#server/db/people';
import { insertPersonalToken, revokePersonalToken } from '#server/db/personal-tokens';
import { endSession } from '#server/db/sessions';
import { updateSettings } from '#server/db/settings';
import type { Db } from '#server/db/transaction';
import { hashSecret, mintSecret } from '#server/secrets/secrets';
import { type Connection, onEachDatabase, postgres } from '#support/databases';
import { madeAt, makeOrganization } from '#support/made-records';
import { patient } from '#support/patient';
import { signedIn } from '#support/signed-in';
import { stillClock } from '#support/still-clock';
import { suite } from '#support/suite';
import { loopbackSetup } from '#support/upstream-setup';
import { waitedFor } from '#support/waited-for';
import { loopbackProviders } from '#support/provider-setup';
import { loopbackMail } from '#support/mail-setup';
import { loopbackWebhooks } from '#support/webhook-setup';
import { masterKey } from '#server/secrets/master-key';

const clock = stillClock(madeAt);
const userId = 'user_dana';
const from = { address: '192.0.2.1', requestId: 'request-1' };

/** The credentials that administrators act with. */
const credentials = {
  async session(db: Db): Promise<Actor> {
    const credential = await signedIn(db, userId);
    const person = { type: 'person', userId, credential } as const;
    return { ...person, provedAt: madeAt, factors: 1, ...from };
  },

  async token(db: Db): Promise<Actor | undefined> {
    const value = mintSecret('pat_');
    const times = { createdAt: madeAt, expiresAt: madeAt + 10 };
    const named = { id: 'token_1', userId, name: 't', hint: 'pat_…', factors: 1 } as const;
    await insertPersonalToken(db, { ...named, ...times, hash: hashSecret(value) }, 1);
    return tokenActor(value, from, { db, clock });
  },
};
const kinds = ['session', 'token'] as const;

async function end(actor: Actor, db: Db): Promise<void> {
  const { type = '', id = '' } = actor.type === 'person' ? actor.credential : {};
  if (type === 'token') await revokePersonalToken(db, userId, id, madeAt);
  else await endSession(db, userId, id);
}

/** Dana, an owner of acme, by a session or a token; and an operation during which `ahead` and `run` happen. */
async function acting(database: Connection, kind: (typeof kinds)[number]) {
  const { db } = database;
  await makeOrganization(database, 'acme');
  const dana = { id: userId, email: 'dana@example.com', createdAt: madeAt };
  await insertUser(db, dana, { organizationId: 'org_acme', role: 'owner' });
  const actor = await credentials[kind](db);
  if (actor?.type !== 'person') throw new Error('no actor');
  const ports = {
    db,
    clock,
    refusals: everyRefusal({ db, clock }),
    upstreamSetup: loopbackSetup(),
    webhookSetup: loopbackWebhooks(clock),
    mailSetup: loopbackMail(clock),
    providerSetup: loopbackProviders(clock),
    contentKey: masterKey(new Uint8Array(32)),
  };
  return {
    actor,
    ports,
    change: (during: { ahead?: () => Promise<void>; run?: (tx: Db) => Promise<void> }) => {
      const operation = organizationOperation({
        name: 'organization.update',
        permission: 'organization.manage',
        doc: 'A change',
        input: z.object({ organization: z.string() }),
        output: z.object({}),
        async ahead() {
          await during.ahead?.();
          return {};
        },
        async run(_input, _at, { db: tx }) {
          await during.run?.(tx);
          return {};
        },
      });
      return perform(operation, { organization: 'acme' }, actor, ports);
    },
  };
}

await onEachDatabase('an administrative change', ({ open }) => {
  test.each(kinds)(
    'is refused if the %s that makes it ended while it was being prepared',
    async (kind) => {
      await using database = await open();
      const { actor, change } = await acting(database, kind);
      const runs: string[] = [];
      const run = async () => void runs.push('run');
      await change({ run });
      const [other, before] = [await database.connectAgain(), runs.length];
      const late = change({ ahead: () => end(actor, other.db), run });

      await expect(late).rejects.toMatchObject({ code: 'signed_out' });
      expect(before).toBeGreaterThan(0);
      expect(runs).toHaveLength(before);
    },
  );
});

await suite('postgres', 'an administrative change in PostgreSQL', () => {
  test.each(kinds)('ends before the %s that makes it can be ended', async (kind) => {
    await using database = await postgres.open();
    const { actor, change } = await acting(database, kind);
    const other = await database.connectAgain();
    const order: string[] = [];
    let ending: Promise<void> | undefined;
    await change({
      async run(tx) {
        const isWaitedFor = await waitedFor(tx, database);
        ending = end(actor, other.db).then(() => void order.push('ended'));
        await expect.poll(isWaitedFor, patient).toBe(true);
        order.push('changed');
      },
    });
    await ending;

    expect(order).toEqual(['changed', 'ended']);
  });
});

await onEachDatabase('a personal token', ({ open }) => {
  /** Dana, with a token. She owns acme and other, and so every organization. */
  async function holder(database: Connection, factors: 1 | 2 = 1) {
    const { actor, ports } = await acting(database, 'token');
    await makeOrganization(database, 'other');
    const dana = { id: userId, email: 'dana@example.com', createdAt: madeAt };
    const join = (organizationId: string) =>
      insertUser(database.db, dana, { organizationId, role: 'owner' });
    await join('org_other');
    const by = { ...actor, factors };
    return {
      /** Dana leaves acme, after Lee has become an owner, and comes back. */
      async returnsToAcme() {
        const lee = { id: 'user_lee', email: 'lee@example.com', createdAt: madeAt };
        await insertUser(database.db, lee, { organizationId: 'org_acme', role: 'owner' });
        await removeMember(database.db, 'org_acme', userId, 'owner');
        await join('org_acme');
      },
      async listed() {
        const { items } = await perform(organizationList, {}, by, ports);
        return items.map(({ name }) => name);
      },
      hosts: () => perform(outboundList, {}, by, ports),
      found: (organization: string) => perform(organizationRead, { organization }, by, ports),
    };
  }

  test('225: personal token: it neither lists nor opens an organization that its owner left since, nor what only an owner of all sees', async () => {
    await using database = await open();
    const token = await holder(database);
    const before = await token.listed();
    const hosts = await token.hosts();
    await token.returnsToAcme();

    expect([before, hosts.items]).toEqual([['acme', 'other'], []]);
    expect(await token.listed()).toEqual(['other']);
    await expect(token.found('acme')).rejects.toMatchObject({ code: 'not_found' });
    await expect(token.hosts()).rejects.toMatchObject({ code: 'not_found' });
  });

  test('225: personal token: it does not list an organization that requires more than was proved for it', async () => {
    await using database = await open();
    const token = await holder(database);
    await updateSettings(database.db, 'org_acme', { secondFactorRequired: true });
    const withOne = await token.listed();
    await using again = await open();
    const strong = await holder(again, 2);
    await updateSettings(again.db, 'org_acme', { secondFactorRequired: true });

    expect(withOne).toEqual(['other']);
    expect(await strong.listed()).toEqual(['acme', 'other']);
  });
});
