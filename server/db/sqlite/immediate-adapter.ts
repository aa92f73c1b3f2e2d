import type { DatabaseSync } from 'node:sqlite';
import { SqliteAdapter, type SqliteDatabase } from 'kysely';

/** What our SQLite can do besides what Kysely asks for. */
export interface ImmediateDatabase extends SqliteDatabase {
  /**
   * Calls `act`. While it runs, only the first read checks whether another process has written. `act` must not write before it
   * returns.
   */
  together(act: () => void): void;

  /** Executes a statement that returns no rows once for each of these lists of values. */
  runEach(sql: string, rows: readonly (readonly unknown[])[]): void;
}

/** Tells Kysely what our SQLite can do, and executes statements without waiting for Kysely. */
export class ImmediateAdapter extends SqliteAdapter {
  readonly #connection: DatabaseSync;
  readonly #database: ImmediateDatabase;

  constructor(connection: DatabaseSync, database: ImmediateDatabase) {
    super();
    this.#connection = connection;
    this.#database = database;
  }

  /** SQLite rolls back changes of the schema too. */
  override get supportsTransactionalDdl(): boolean {
    return true;
  }

  /**
   * The rows of a query; `undefined` while a transaction is open on this connection, because the rows would include its
   * uncommitted changes.
   */
  readNow(sql: string, parameters: readonly unknown[]): unknown[] | undefined {
    if (this.#connection.isTransaction) return undefined;
    return this.#database.prepare(sql).all(parameters);
  }

  /**
   * Executes a statement that returns no rows once for each of these lists of values, immediately: building and awaiting a query for
   * each costs several times as much as executing it.
   */
  runEach(sql: string, rows: readonly (readonly unknown[])[]): void {
    this.#database.runEach(sql, rows);
  }

  together(act: () => void): void {
    this.#database.together(act);
  }
}
