import { randomBytes } from 'node:crypto';
import { chmodSync, closeSync, fsyncSync, linkSync, openSync, rmSync } from 'node:fs';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type DatabaseConnection,
  Kysely,
  SqliteDialect,
  SqliteDriver,
  type SqliteStatement,
} from 'kysely';
import { databaseFault } from '#db/faults';
import { tableNamesOnly } from '#db/migrate';
import type { Schema } from '#db/schema';
import {
  cachedRows,
  isCacheable,
  sharedChangeToken,
  uncachedRowsOf,
  writesOnlyUncached,
} from './cached-reads.ts';
import { ImmediateAdapter, type ImmediateDatabase } from './immediate-adapter.ts';
import { WriteAheadLog } from './write-ahead-log.ts';

const busyTimeoutMs = 5000;

/** An open SQLite database: typed queries, and the connection itself for the reads of every call. */
interface SqliteStore {
  readonly db: Kysely<Schema>;
  readonly connection: DatabaseSync;
}

/**
 * Opens the database at `file`, or one in memory for `:memory:`. A missing file is created with mode 0600. Write-ahead logging
 * lets commands run while the server does; foreign keys are enforced; a commit returns when it is on disk.
 */
export function openSqlite(file: string): SqliteStore {
  if (file !== ':memory:') {
    closeSync(openSync(file, 'a', 0o600));
    chmodSync(file, 0o600);
  }
  const connection = new DatabaseSync(file, {
    timeout: busyTimeoutMs,
    enableForeignKeyConstraints: true,
  });
  connection.exec('pragma journal_mode = wal');
  connection.exec('pragma synchronous = full');
  return sqliteOver(connection);
}

/** Opens a database only to read it: nothing about the file changes, and a missing one is not created. */
export function openSqliteToRead(file: string): SqliteStore {
  return sqliteOver(new DatabaseSync(file, { timeout: busyTimeoutMs, readOnly: true }));
}

/** The store over an open connection. */
export function sqliteOver(connection: DatabaseSync): SqliteStore {
  const database = nodeSqlite(connection);
  const dialect = new SqliteDialect({ database });
  dialect.createDriver = () => new SharingDriver({ database });
  const adapter = new ImmediateAdapter(connection, database);
  dialect.createAdapter = () => adapter;
  dialect.createIntrospector = tableNamesOnly;
  return { db: new Kysely<Schema>({ dialect }), connection };
}

/** For this long after a wait for another process, this process pauses before each transaction, so that others get a turn. */
const sharingMs = 1000;

/**
 * Waits for the transactions of other processes without blocking this one. SQLite itself blocks the process, and looks for a free
 * lock so rarely that a process with many transactions could keep the others away.
 */
class SharingDriver extends SqliteDriver {
  #waitedAtMs = -Infinity;

  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    const startedMs = performance.now();
    if (startedMs - this.#waitedAtMs < sharingMs) await delay(1);
    for (;;) {
      try {
        return await super.beginTransaction(connection);
      } catch (error) {
        const nowMs = performance.now();
        if (databaseFault(error) !== 'busy' || nowMs - startedMs > busyTimeoutMs) throw error;
        this.#waitedAtMs = nowMs;
      }
      await delay(1);
    }
  }
}

/**
 * Adapts `node:sqlite` to Kysely's SQLite dialect. Every statement is prepared once, and the rows of queries are cached until
 * the database changes.
 *
 * A transaction takes the write lock when it begins: a deferred transaction fails immediately, without waiting for the busy
 * timeout, when another process writes between its first read and its first write. It does not wait for the lock: see
 * `SharingDriver`.
 */
export function nodeSqlite(database: DatabaseSync): ImmediateDatabase {
  const prepared = new Map<string, SqliteStatement>();
  const changes = sharedChangeToken(database);
  const cached = cachedRows(database, () => changes.changeToken());
  const note = uncachedChangesNoter(database);
  const log = new WriteAheadLog(database);

  const prepare = (sql: string): SqliteStatement => {
    const known = prepared.get(sql);
    if (known) return known;
    const plain = adapt(database.prepare(sql === 'begin' ? 'begin immediate' : sql));
    const statement =
      isQuery(sql) && isCacheable(sql)
        ? { ...plain, all: (of: readonly unknown[]) => cached(sql, of, () => plain.all(of)) }
        : writesOnlyUncached(sql)
          ? notingStatement(plain, note)
          : sql === 'begin'
            ? withoutWaiting(plain, database)
            : sql === 'rollback'
              ? unlessRolledBack(plain, database)
              : plain;
    prepared.set(sql, statement);
    return statement;
  };

  return {
    prepare,
    together: (act) => changes.together(act),
    runEach(sql, rows) {
      // Not `run`: to build its result takes about as long as binding four values.
      const statement = prepare(sql);
      const each = () => {
        for (const values of rows) statement.all(values);
      };
      if (writesOnlyUncached(sql)) note(each);
      else each();
    },
    writeNow(statements) {
      database.exec('pragma synchronous = normal');
      try {
        prepare('begin').run([]);
        const rows = statements.map(([sql, ...parameters]) => [...prepare(sql).all(parameters)]);
        prepare('commit').run([]);
        return rows;
      } catch (error) {
        prepare('rollback').run([]);
        if (databaseFault(error) === 'busy') return undefined;
        throw error;
      } finally {
        database.exec('pragma synchronous = full');
      }
    },
    hasLog: () => log.isUsed,
    syncLog: () => log.sync(),
    close() {
      log.close();
      database.close();
    },
  };
}

/**
 * Whether a statement only reads. One that writes after a `with` clause passes this test, but its rows are never reused,
 * because writing changes the change token.
 */
function isQuery(sql: string): boolean {
  return /^\s*(select|with)\b/i.test(sql);
}

/** Calls `act`, which changes only rows of `uncachedTables`, and tells the change token how many. */
type Note = <Result>(act: () => Result) => Result;

function uncachedChangesNoter(database: DatabaseSync): Note {
  const rows = uncachedRowsOf(database);
  const total = database.prepare('select total_changes() as count');
  const changed = () => Number(total.get()?.['count']);
  let isNoting = false;
  return (act) => {
    if (isNoting) return act();
    const before = changed();
    isNoting = true;
    try {
      return act();
    } finally {
      isNoting = false;
      rows.written += changed() - before;
    }
  };
}

function notingStatement(statement: SqliteStatement, note: Note): SqliteStatement {
  return {
    ...statement,
    all: (parameters) => note(() => statement.all(parameters)),
    run: (parameters) => note(() => statement.run(parameters)),
  };
}

/** Fails immediately if another process has locked the database. */
function withoutWaiting(statement: SqliteStatement, database: DatabaseSync): SqliteStatement {
  return {
    ...statement,
    run(parameters) {
      database.exec('pragma busy_timeout = 0');
      try {
        return statement.run(parameters);
      } finally {
        database.exec(`pragma busy_timeout = ${busyTimeoutMs}`);
      }
    },
  };
}

/** After a full disk, SQLite has already rolled back. A second failure here would hide the first one. */
function unlessRolledBack(statement: SqliteStatement, database: DatabaseSync): SqliteStatement {
  const nothing = { changes: 0, lastInsertRowid: 0 };
  return {
    ...statement,
    run: (parameters) => (database.isTransaction ? statement.run(parameters) : nothing),
  };
}

function adapt(statement: StatementSync): SqliteStatement {
  const values = (parameters: readonly unknown[]) => parameters as SQLInputValue[];
  return {
    reader: statement.columns().length > 0,
    all: (parameters) => statement.all(...values(parameters)),
    run: (parameters) => statement.run(...values(parameters)),
    iterate: (parameters) => statement.iterate(...values(parameters)),
  };
}

/**
 * Checks that `file` is a complete, readable database of Latchkey. If not, returns what is wrong: a predicate whose subject is
 * the file.
 */
export function problemOfDatabase(file: string): string | undefined {
  const connection = new DatabaseSync(file, { readOnly: true });
  try {
    const found = connection.prepare('pragma integrity_check(1)').get();
    if (found?.['integrity_check'] !== 'ok') return 'is damaged';
    const named = connection.prepare(
      `select 1 from sqlite_master where type = 'table' and name = ?`,
    );
    if (named.get('kysely_migration')) return undefined;
    return named.get('migration')
      ? 'was made by a Latchkey from before the first release, which this one cannot read'
      : 'is not a backup of a Latchkey server';
  } catch (error) {
    const isOther = error instanceof Error && /not a database|malformed/.test(error.message);
    if (!isOther) throw error;
    return 'is not a backup of a Latchkey server, or it is damaged';
  } finally {
    connection.close();
  }
}

/**
 * Moves the content of the write-ahead log into the database file, which requires that no other process has it open.
 *
 * @returns `false` when another process has it open
 */
export function isolateDatabase(file: string): boolean {
  const connection = new DatabaseSync(file, { timeout: 0 });
  try {
    // Leaving write-ahead logging takes an exclusive lock, which every other open connection prevents.
    connection.exec('pragma journal_mode = delete');
    return true;
  } catch (error) {
    if (databaseFault(error) === 'busy') return false;
    throw error;
  } finally {
    connection.close();
  }
}

/**
 * Locks `file`, an empty database that is created if it is missing, until the returned lock is closed or this process ends, however
 * it ends. `undefined` if another process has locked it.
 */
export function lockFile(file: string): { close(): void } | undefined {
  closeSync(openSync(file, 'a', 0o600));
  const connection = new DatabaseSync(file, { timeout: 0 });
  try {
    connection.exec('begin exclusive');
    return connection;
  } catch (error) {
    connection.close();
    if (databaseFault(error) === 'busy') return undefined;
    throw error;
  }
}

/**
 * Writes a snapshot of the database to the new file `file` (mode 0600), while others read and write. The file is created
 * complete or not at all, and is on disk when this returns.
 *
 * @throws the file system's error; `EEXIST` when the file exists
 */
export function writeBackup(connection: DatabaseSync, file: string): void {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  closeSync(openSync(draft, 'wx', 0o600));
  try {
    connection.prepare('vacuum into ?').run(draft);
    const descriptor = openSync(draft, 'r+');
    fsyncSync(descriptor);
    closeSync(descriptor);
    linkSync(draft, file);
  } finally {
    rmSync(draft, { force: true });
  }
}
