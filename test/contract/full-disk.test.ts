import { DatabaseSync } from 'node:sqlite';
import { Kysely, sql, SqliteDialect } from 'kysely';
import { expect, test } from 'vitest';
import { nodeSqlite } from '#server/db/sqlite/open-sqlite';

test('database: a transaction that fills the disk fails with that reason and stores nothing', async () => {
  const connection = new DatabaseSync(':memory:');
  connection.exec('create table t (a text); pragma max_page_count = 4');
  const db = new Kysely<object>({
    dialect: new SqliteDialect({ database: nodeSqlite(connection) }),
  });
  const filling = db.transaction().execute(async (transaction) => {
    await sql`insert into t values ('first')`.execute(transaction);
    await sql`insert into t values (${'x'.repeat(100_000)})`.execute(transaction);
  });

  await expect(filling).rejects.toThrow('database or disk is full');
  expect(connection.prepare('select count(*) as n from t').get()).toEqual({ n: 0 });
  await db.destroy();
});
