import { join } from 'node:path';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { openSqlite } from '#server/db/sqlite/open-sqlite';
import { transaction } from '#server/db/transaction';
import { temporaryFolder } from '#support/temporary-folder';

async function threeProcesses() {
  const stack = new AsyncDisposableStack();
  const folder = stack.use(await temporaryFolder());
  const open = () => {
    const { db, connection } = openSqlite(join(folder.path, 'shared.db'));
    stack.defer(() => db.destroy());
    return { db, connection };
  };
  const [one, other, third] = [open(), open(), open()];
  one.connection.exec('create table counted (number integer)');
  return { one, other, third, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

const count = sql`insert into counted select count(*) from counted`;

test('SQLite: a transaction waits for another process without blocking its own', async () => {
  await using processes = await threeProcesses();
  const { one, other } = processes;
  one.connection.exec('begin immediate');

  const written = transaction(other.db, (tx) => count.execute(tx));
  // Resolves only if the event loop turns, which a blocking transaction would prevent.
  await new Promise((resolve) => setTimeout(resolve, 5));
  const duringWait = other.connection.prepare('select count(*) as rows from counted').get();
  one.connection.exec('insert into counted values (0); commit');
  await written;

  expect(duringWait).toMatchObject({ rows: 0 });
  expect(one.connection.prepare('select number from counted').all()).toMatchObject([
    { number: 0 },
    { number: 1 },
  ]);
});

test('SQLite: single statements wait for another process for as long as before a transaction', async () => {
  await using processes = await threeProcesses();
  const { db, connection } = processes.one;

  await transaction(db, (tx) => count.execute(tx));

  expect(connection.prepare('pragma busy_timeout').get()).toEqual({ timeout: 5000 });
});

test('SQLite: a process with many transactions gives another one its turn between them', async () => {
  await using processes = await threeProcesses();
  const { one, other, third } = processes;
  const order: string[] = [];
  const counting = (name: string, { db }: typeof one) =>
    transaction(db, async (tx) => void (await count.execute(tx))).then(() => order.push(name));

  third.connection.exec('begin immediate');
  const all = Array.from({ length: 20 }, () => counting('other', other));
  all.push(counting('one', one));
  await new Promise((resolve) => setTimeout(resolve, 5));
  third.connection.exec('rollback');
  await Promise.all(all);

  expect(order.indexOf('one')).toBeLessThan(20);
});
