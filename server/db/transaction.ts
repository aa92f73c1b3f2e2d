import { setTimeout as delay } from 'node:timers/promises';
import { PostgresAdapter, sql, type Kysely } from 'kysely';

import { backOffs, pauseMs } from '#model/back-off';
import { databaseFault } from './faults.ts';
import type { Schema } from './schema.ts';
import { ImmediateAdapter } from './sqlite/immediate-adapter.ts';

/** A connection to the database, or a transaction. */
export type Db = Kysely<Schema>;

const mostRuns = 5;

/**
 * Runs `work` in a transaction, which is rolled back when `work` rejects. If `db` already is a transaction, `work` runs in it.
 * `work` must await nothing but queries of the transaction that it receives.
 *
 * PostgreSQL rolls back one of two transactions that deadlock, and this function runs it again. Therefore `work` may run several times and
 * must have no effects outside the database. If the connection breaks during the commit, it is unknown whether the transaction was
 * committed, so it is not run again.
 */
export async function transaction<Result>(
  db: Db,
  work: (db: Db) => Promise<Result>,
): Promise<Result> {
  if (db.isTransaction) return work(db);
  return untilNoDeadlock(() => db.transaction().execute(work));
}

/** Runs a transaction or a single statement, and runs it again if PostgreSQL rolled it back because of another transaction. */
export async function untilNoDeadlock<Result>(run: () => Promise<Result>): Promise<Result> {
  for (let runs = 1; ; runs += 1) {
    try {
      return await run();
    } catch (error) {
      if (runs === mostRuns || databaseFault(error) !== 'retryable') throw error;
    }
    await delay(pauseMs(backOffs.deadlock, runs));
  }
}

/**
 * Like `transaction`, but the commit does not wait for the disk: it survives a crash of the process, but a power failure only
 * after a later commit. Use it for counts that may be lost, never for changes that are confirmed to a caller.
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
 * Like `transaction`, but on SQLite the process does other work until the commit is on disk. Others may see the changes before that, so
 * use it only for changes that may be seen and then lost in a crash, and confirm nothing to a caller before it resolves.
 */
export async function syncedTransaction<Result>(
  db: Db,
  work: (db: Db) => Promise<Result>,
): Promise<Result> {
  if (!logOf(db)) return transaction(db, work);
  const result = await quickTransaction(db, work);
  await synced(db);
  return result;
}

/** Resolves when everything that was committed before is on disk. */
export async function synced(db: Db): Promise<void> {
  await logOf(db)?.syncLog();
}

/**
 * On SQLite, executes statements in a transaction that is committed when this returns, but not yet on disk: wait for `synced`.
 * Building and awaiting the queries of a transaction takes several times as long.
 *
 * @returns the rows of each statement; `undefined`, with nothing changed, if that is impossible now, for instance because another
 * transaction is open: then use `syncedTransaction`
 */
export function writeNow(
  db: Db,
  statements: readonly (readonly [sql: string, ...parameters: unknown[]])[],
): unknown[][] | undefined {
  return logOf(db)?.writeNow(statements);
}

function logOf(db: Db): ImmediateAdapter | undefined {
  const { adapter } = db.getExecutor();
  const isSynced = !db.isTransaction && adapter instanceof ImmediateAdapter && adapter.hasLog;
  return isSynced ? adapter : undefined;
}

/**
 * Within a transaction: takes the lock of this name, which the transaction holds until it ends. Waits while another
 * transaction holds it; those that share it wait only for one that does not. Does nothing on SQLite, which has one writer at a time.
 */
export async function advisoryLock(
  db: Db,
  name: string,
  { isShared = false }: { readonly isShared?: boolean } = {},
): Promise<void> {
  if (!isPostgres(db)) return;
  const take = isShared ? sql`pg_advisory_xact_lock_shared` : sql`pg_advisory_xact_lock`;
  await sql`select ${take}(hashtextextended(${name}, 0))`.execute(db);
}

/** Whether the database is PostgreSQL; SQLite otherwise. */
export function isPostgres(db: Db): boolean {
  return db.getExecutor().adapter instanceof PostgresAdapter;
}

const rowsAtOnce = 500;

/** Rows or ids in parts that fit into the parameters of one statement. */
export function inParts<Row>(rows: readonly Row[]): Row[][] {
  return Array.from({ length: Math.ceil(rows.length / rowsAtOnce) }, (_, part) =>
    rows.slice(part * rowsAtOnce, (part + 1) * rowsAtOnce),
  );
}
