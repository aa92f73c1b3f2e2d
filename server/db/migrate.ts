import { sql, type DatabaseIntrospector } from 'kysely';
import { Migrator } from 'kysely/migration';

import { up as initial } from './migrations/0001-initial.ts';
import { up as nodes } from './migrations/0002-nodes.ts';
import { advisoryLock, isPostgres, transaction, type Db } from './transaction.ts';

/** All migrations, oldest first. The statements of a released migration never change. */
const migrations = { '0001-initial': { up: initial }, '0002-nodes': { up: nodes } };

/** What a database at the newest schema has in `kysely_migration`, oldest first. */
export const migrationNames: readonly string[] = Object.keys(migrations);

/**
 * Migrates the database to the newest schema, in one transaction and under a lock: processes that start at the same time
 * do it once, and a migration that fails changes nothing.
 *
 * @throws {Error} when the database is from a newer Latchkey, or from before the first release
 */
export async function migrate(db: Db): Promise<void> {
  await transaction(db, async (tx) => {
    if (isPostgres(tx)) await sql`set local statement_timeout = 0`.execute(tx);
    await advisoryLock(tx, 'migrations');
    await refuseOthers(tx);
    const provider = { getMigrations: () => Promise.resolve(migrations) };
    const { error } = await new Migrator({ db: tx, provider }).migrateToLatest();
    if (error !== undefined) throw error;
  });
}

async function refuseOthers(tx: Db): Promise<void> {
  const tables = await tablesOf(tx);
  if (tables.has('migration')) {
    throw new Error(
      'the database was made by a Latchkey from before the first release, which this one cannot read: start with an empty data folder',
    );
  }
  if (!tables.has('kysely_migration')) return;
  const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(tx);
  const unknown = rows.find(({ name }) => !Object.hasOwn(migrations, name));
  if (unknown) {
    throw new Error(`the database was made by a newer Latchkey (it has migration ${unknown.name})`);
  }
}

/** An introspector for `Migrator`, which only needs the names of the tables in the default schema. */
export function tableNamesOnly(db: Db): DatabaseIntrospector {
  return {
    getSchemas: () => Promise.resolve([]),
    async getTables() {
      const names = await tablesOf(db);
      return [...names].map((name) => ({ name, isView: false, isForeign: false, columns: [] }));
    },
  };
}

async function tablesOf(db: Db): Promise<ReadonlySet<string>> {
  const query = isPostgres(db)
    ? sql<{
        name: string;
      }>`select tablename as name from pg_tables where schemaname = current_schema()`
    : sql<{ name: string }>`select name from sqlite_master where type = 'table'`;
  const { rows } = await query.execute(db);
  return new Set(rows.map(({ name }) => name));
}
