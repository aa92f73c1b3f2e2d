import { randomBytes } from 'node:crypto';
import { chmodSync, closeSync, fsyncSync, linkSync, openSync, rmSync } from 'node:fs';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import {
  Kysely,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  type SqliteStatement,
} from 'kysely';
import { databaseFault } from '#db/faults';
import { tableNamesOnly } from '#db/migrate';
import type { Schema } from '#db/schema';
import { cachedRows } from './cached-reads.ts';

const busyTimeoutMs = 5000;

/** One SQLite file: typed queries, and the bare connection for the reads that every call makes. */
interface SqliteStore {
  readonly db: Kysely<Schema>;
  readonly connection: DatabaseSync;
}

/**
 * Opens the database at `file`, making it (mode 0600) where there is none, or one in memory for `:memory:`. Write-ahead logging, so that
 * the commands work while the server runs; foreign keys enforced; a commit is on disk once it returns.
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
  const dialect = new SqliteDialect({ database: nodeSqlite(connection) });
  dialect.createAdapter = () => new TransactionalAdapter();
  dialect.createIntrospector = tableNamesOnly;
  return { db: new Kysely<Schema>({ dialect }), connection };
}

/** SQLite takes back changes of the schema, too, which Kysely does not count on. */
class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

/**
 * `node:sqlite` in the shape that Kysely's SQLite dialect asks for. Every statement is prepared once, and what a
 * question found is not looked up again while nothing is written.
 * A transaction takes the write lock when it begins: a deferred one fails at once, past any busy
 * timeout, when another process writes between its first read and its first write.
 */
export function nodeSqlite(database: DatabaseSync): SqliteDatabase {
  const prepared = new Map<string, SqliteStatement>();
  const cached = cachedRows(database);

  const prepare = (sql: string): SqliteStatement => {
    const known = prepared.get(sql);
    if (known) return known;
    const plain = adapt(database.prepare(sql === 'begin' ? 'begin immediate' : sql));
    const statement = isQuestion(sql)
      ? { ...plain, all: (of: readonly unknown[]) => cached(sql, of, () => plain.all(of)) }
      : sql === 'rollback'
        ? unlessRolledBack(plain, database)
        : plain;
    prepared.set(sql, statement);
    return statement;
  };

  return { prepare, close: () => database.close() };
}

/**
 * Whether a statement only reads. A statement that writes after a `with` clause is recognized by what it wrote and is
 * not cached.
 */
function isQuestion(sql: string): boolean {
  return /^\s*(select|with)\b/i.test(sql);
}

/** A full disk has rolled back already; failing here as well would hide why. */
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
 * Whether `file` holds a database of ours, every page of it readable.
 * What it is otherwise, a picture or half a copy, is the answer as words behind the name of the file.
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
      : 'is no backup of a Latchkey server';
  } catch (error) {
    const isOther = error instanceof Error && /not a database|malformed/.test(error.message);
    if (!isOther) throw error;
    return 'is no backup of a Latchkey server, or damaged';
  } finally {
    connection.close();
  }
}

/**
 * Moves the whole database into its one file, which requires that no other process has it open. `false` if one has.
 */
export function isolateDatabase(file: string): boolean {
  const connection = new DatabaseSync(file, { timeout: 0 });
  try {
    // Leaving the write-ahead log takes a lock that every other open connection is in the way of.
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
 * Writes everything that the database holds at this moment to the new file `file` (mode 0600), while others go on
 * reading and writing. The file is there whole or not at all, and on disk once this returns.
 *
 * @throws the file system's error; `EEXIST` where something is there already
 */
export function writeBackup(connection: DatabaseSync, file: string): void {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  closeSync(openSync(draft, 'wx', 0o600));
  try {
    connection.prepare('vacuum into ?').run(draft);
    const written = openSync(draft, 'r+');
    fsyncSync(written);
    closeSync(written);
    linkSync(draft, file);
  } finally {
    rmSync(draft, { force: true });
  }
}
