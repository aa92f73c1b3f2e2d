import { expect, test } from 'vitest';
import { z } from 'zod';
import { type Actor, organizationOperation, perform, tokenActor } from '#server/admin/operation';
import { everyRefusal } from '#server/audit/counted-refusals';
import { insertUser } from '#server/db/people';
import { insertPersonalToken, revokePersonalToken } from '#server/db/personal-tokens';
import { endSession } from '#server/db/sessions';
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

/** What administrators act with, and how each ends. */
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
  if (!actor) throw new Error('no actor');
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
