import { rmSync } from 'node:fs';
import { join } from 'node:path';

import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';

import { openSqlite } from '#server/db/sqlite/open-sqlite';
import { synced, syncedTransaction, writeNow } from '#server/db/transaction';
import { temporaryFolder } from '#support/temporary-folder';

/** A database with an empty table, opened by two processes. */
async function twoProcesses() {
  const folder = await temporaryFolder();
  const file = join(folder.path, 'shared.db');
  const [own, other] = [openSqlite(file), openSqlite(file)];
  onTestFinished(async () => {
    await own.db.destroy();
    await other.db.destroy();
    await folder[Symbol.asyncDispose]();
  });
  own.connection.exec('create table counted (number integer primary key)');
  const insert = (...numbers: number[]) =>
    writeNow(
      own.db,
      numbers.map((number) => ['insert into counted values (?) returning number', number] as const),
    );
  const seen = () =>
    other.connection
      .prepare('select number from counted')
      .all()
      .map(({ number }) => number);
  return { file, own, other, insert, seen };
}

const synchronous = 'pragma synchronous';
const full = { synchronous: 2 };

test('SQLite: what is written now is there immediately, and the next commit waits for the disk as before', async () => {
  const { own, insert, seen } = await twoProcesses();

  expect(insert(1, 2)).toEqual([
    [expect.objectContaining({ number: 1 })],
    [expect.objectContaining({ number: 2 })],
  ]);
  expect(seen()).toEqual([1, 2]);
  expect(own.connection.prepare(synchronous).get()).toEqual(full);
  await synced(own.db);
});

test('SQLite: what is written now is all there or nothing of it', async () => {
  const { own, insert, seen } = await twoProcesses();

  expect(() => insert(1, 1)).toThrow('UNIQUE constraint failed');
  expect(seen()).toEqual([]);
  expect(own.connection.isTransaction).toBe(false);
  expect(own.connection.prepare(synchronous).get()).toEqual(full);
});

test('SQLite: nothing is written now within a transaction, or while one of this or another process is open', async () => {
  const { own, other, insert, seen } = await twoProcesses();
  await own.db.transaction().execute(async (tx) => {
    expect(insert(1)).toBeUndefined();
    expect(writeNow(tx, [['insert into counted values (2)']])).toBeUndefined();
  });
  other.connection.exec('begin immediate');
  const startedAt = performance.now();

  expect(insert(3)).toBeUndefined();
  expect(performance.now() - startedAt).toBeLessThan(4000);
  other.connection.exec('rollback');
  expect(seen()).toEqual([]);
  expect(insert(4)).toHaveLength(1);
});

test('SQLite: a synced transaction resolves only when the log was written to disk', async () => {
  const { file, own } = await twoProcesses();
  const add = (number: number) =>
    syncedTransaction(own.db, (tx) => sql`insert into counted values (${number})`.execute(tx));
  // The process opens this file only when it first needs it.
  rmSync(`${file}-wal`);

  await expect(add(1)).rejects.toThrow('ENOENT');
});

test('SQLite: a database that is closed during a sync ends it first', async () => {
  const { own, insert } = await twoProcesses();
  insert(1);
  const both = [synced(own.db), synced(own.db)];
  await own.db.destroy();

  await expect(Promise.all(both)).resolves.toBeDefined();
});

test('SQLite in memory: there is nothing to sync, and transactions are ordinary ones', async () => {
  const { db, connection } = openSqlite(':memory:');
  connection.exec('create table counted (number integer)');

  await syncedTransaction(db, (tx) => sql`insert into counted values (1)`.execute(tx));
  expect(writeNow(db, [['insert into counted values (2)']])).toBeUndefined();
  await synced(db);
  expect(connection.prepare('select number from counted').all()).toEqual([{ number: 1 }]);
  await db.destroy();
});
