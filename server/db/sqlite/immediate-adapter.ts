import type { DatabaseSync } from 'node:sqlite';
import { SqliteAdapter, type SqliteDatabase } from 'kysely';

export interface ReadsTogether {
  /**
   * Calls `act`. While it runs, only the first read checks whether another process has written. `act` must not write before it
   * returns.
   */
  together(act: () => void): void;
}

/** Tells Kysely what our SQLite can do, and executes statements without waiting for Kysely. */
export class ImmediateAdapter extends SqliteAdapter implements ReadsTogether {
  readonly #connection: DatabaseSync;
  readonly #database: SqliteDatabase & ReadsTogether;

  constructor(connection: DatabaseSync, database: SqliteDatabase & ReadsTogether) {
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
    const statement = this.#database.prepare(sql);
    for (const values of rows) statement.run(values);
  }

  together(act: () => void): void {
    this.#database.together(act);
  }
}
