import { setTimeout as delay } from 'node:timers/promises';
import { PostgresAdapter, sql, type Kysely } from 'kysely';

import { databaseFault } from './faults.ts';
import type { Schema } from './schema.ts';

/** A connection to the database, or one transaction in it. */
export type Db = Kysely<Schema>;

const mostRuns = 5;

/**
 * Does all of `work` or, when it rejects, nothing of it: in the transaction that `db` already is, else in one of its own. Wait for
 * nothing inside but what goes through the transaction that `work` gets.
 *
 * PostgreSQL rolls one of two transactions back that wait for each other. It is run again here, so `work` may run several times
 * and must leave nothing behind outside the database. When the connection breaks during the commit, nobody knows whether it
 * happened, so that is never run again.
 */
export async function transaction<Result>(
  db: Db,
  work: (db: Db) => Promise<Result>,
): Promise<Result> {
  if (db.isTransaction) return work(db);
  for (let run = 1; ; run += 1) {
    try {
      return await db.transaction().execute(work);
    } catch (error) {
      if (run === mostRuns || databaseFault(error) !== 'retryable') throw error;
    }
    await delay(2 ** run);
  }
}

/**
 * The same in a transaction that does not wait for the disk: it outlives the process immediately, and a loss of power
 * once anything else was committed. For counts that can be lost, never for what a caller was told is stored.
 *
 * SQLite `pragma synchronous`, in write-ahead logging; PostgreSQL `synchronous_commit`
 */
export async function quickTransaction<Result>(
  db: Db,
  work: (db: Db) => Promise<Result>,
): Promise<Result> {
  if (db.isTransaction) return work(db);
  if (isPostgres(db)) {
    return transaction(db, async (tx) => {
      await sql`set local synchronous_commit = off`.execute(tx);
      return work(tx);
    });
  }
  return db.connection().execute(async (connection) => {
    await sql`pragma synchronous = normal`.execute(connection);
    try {
      return await transaction(connection, work);
    } finally {
      await sql`pragma synchronous = full`.execute(connection);
    }
  });
}

/**
 * Within a transaction: waits until no other transaction is `alone` under this name, and keeps others out until the end
 * of this one. SQLite has one writer in any case.
 */
export async function alone(db: Db, name: string): Promise<void> {
  if (!isPostgres(db)) return;
  await sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`.execute(db);
}

/** Whether the database is PostgreSQL; SQLite otherwise. */
export function isPostgres(db: Db): boolean {
  return db.getExecutor().adapter instanceof PostgresAdapter;
}
