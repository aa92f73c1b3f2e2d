import type { DatabaseSync } from 'node:sqlite';
import { SqliteAdapter, type SqliteDatabase } from 'kysely';

/** Our SQLite, with the functions that Kysely does not ask for. */
export interface ImmediateDatabase extends SqliteDatabase {
  /**
   * Calls `act`. While it runs, only the first read checks whether another process has written. `act` must not write before it
   * returns.
   */
  together(act: () => void): void;

  /** Executes a statement that returns no rows once for each of these lists of values. */
  runEach(sql: string, rows: readonly (readonly unknown[])[]): void;

  /**
   * Executes statements in a transaction whose commit does not wait for the disk. Returns the rows of each; `undefined`, with nothing
   * changed, while another process has locked the database.
   */
  writeNow(statements: Statements): unknown[][] | undefined;

  /** Whether commits are written to a write-ahead log. */
  hasLog(): boolean;

  /** Resolves when everything that was committed before is on disk. Meanwhile, the process does other things. */
  syncLog(): Promise<void>;
}

type Statements = readonly (readonly [sql: string, ...parameters: unknown[]])[];

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

  /**
   * Executes statements in a transaction whose commit does not wait for the disk. Returns the rows of each; `undefined`, with nothing
   * changed, while another transaction is open on this connection, or while another process has locked the database.
   */
  writeNow(statements: Statements): unknown[][] | undefined {
    if (this.#connection.isTransaction) return undefined;
    return this.#database.writeNow(statements);
  }

  /** Whether commits are written to a write-ahead log. */
  get hasLog(): boolean {
    return this.#database.hasLog();
  }

  /** Resolves when everything that was committed before is on disk. Meanwhile, the process does other things. */
  syncLog(): Promise<void> {
    return this.#database.syncLog();
  }

  together(act: () => void): void {
    this.#database.together(act);
  }
}
