import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';

import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';

import { databaseName } from '#server/app/stores';
import { openDatabaseIn } from '#support/open-database';
import { AssertionLedger, type SpentAssertion } from '#server/oauth/assertions';
import { fakeClock } from '#support/fake-clock';
import { temporaryFolder } from '#support/temporary-folder';

/** The ledgers of two processes on one database. */
async function twoProcesses() {
  const folder = await temporaryFolder();
  const [own, other] = [await openDatabaseIn(folder.path), await openDatabaseIn(folder.path)];
  onTestFinished(async () => {
    await own.close();
    await other.close();
    await folder[Symbol.asyncDispose]();
  });
  const clock = fakeClock();
  const assertion = (id: string): SpentAssertion => ({
    organizationId: 'org_acme',
    issuer: 'https://id.example',
    id,
    exp: clock.now() + 300,
  });
  const [one, two] = [own, other].map(({ db }) => new AssertionLedger({ db, clock }));
  if (!one || !two) throw new TypeError('two ledgers were expected');
  return { file: join(folder.path, databaseName), own, one, two, assertion };
}

test('used assertions: of equal ones that come together, one is the first, at whichever process', async () => {
  const { one, two, assertion } = await twoProcesses();
  const ids = Array.from({ length: 300 }, (_, at) => `id ${at % 100}`);
  const spent = await Promise.all(
    ids.map((id, at) => (at % 2 === 0 ? one : two).spend(assertion(id))),
  );

  expect(spent.filter(Boolean)).toHaveLength(100);
  expect(await Promise.all(ids.map((id) => two.spend(assertion(id))))).not.toContain(true);
});

test('used assertions: other keys of the issuer let none be used again; another organization does not use them up', async () => {
  const { one, two, assertion } = await twoProcesses();
  const workload = (name: string, organizationId: string): SpentAssertion => ({
    ...assertion('a'),
    organizationId,
    source: { type: 'url', url: `https://id.example/${name}` },
  });
  const inTurn = [
    [one, workload('keys', 'org_acme')],
    [two, workload('other-keys', 'org_acme')],
    [one, workload('keys', 'org_other')],
    [two, workload('own-keys', 'org_third')],
    [one, assertion('a')],
    [two, { ...assertion('a'), organizationId: 'org_fourth' }],
  ] as const;
  const spent: boolean[] = [];
  for (const [ledger, used] of inTurn) spent.push(await ledger.spend(used));

  // A workload's token does not name its organization, so only one organization accepts it by the same keys.
  expect(spent).toEqual([true, false, false, true, false, true]);
});

test('used assertions: those that come during a transaction are recorded after it', async () => {
  const { own, one, assertion } = await twoProcesses();
  const spent: Promise<boolean>[] = [];
  await own.db.transaction().execute(async (tx) => {
    spent.push(one.spend(assertion('a')), one.spend(assertion('a')));
    // They would be recorded some turns later, which the open transaction prevents.
    for (let turns = 0; turns < 10; turns += 1) await turn();
    const { rows } = await sql`select * from spent_challenge`.execute(tx);
    expect(rows).toEqual([]);
  });

  expect(await Promise.all(spent)).toEqual([true, false]);
});

test('used assertions: none is confirmed before it is on disk, and one that was not counts as used', async () => {
  const { file, one, two, assertion } = await twoProcesses();
  // The process opens this file only when it first needs it.
  rmSync(`${file}-wal`);

  await expect(one.spend(assertion('a'))).rejects.toThrow('ENOENT');
  expect(await two.spend(assertion('a')).catch(() => false)).toBe(false);
  expect(await one.spend(assertion('a')).catch(() => false)).toBe(false);
});
