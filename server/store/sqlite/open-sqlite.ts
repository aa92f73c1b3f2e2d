import { chmodSync, closeSync, openSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

import { Kysely, SqliteDialect } from 'kysely';

import type { Schema } from '#store/schema';
import { nodeSqlite } from './node-sqlite.ts';

const busyTimeoutMs = 5000;

/** One SQLite file: typed queries, and the bare connection for the reads that every call makes. */
export interface SqliteStore {
  readonly db: Kysely<Schema>;
  readonly connection: DatabaseSync;
}

/**
 * Opens the database at `file`, making it (mode 0600) where there is none. Write-ahead logging, so that
 * the commands work while the server runs; foreign keys enforced; a commit is on disk once it returns.
 */
export function openSqlite(file: string): SqliteStore {
  closeSync(openSync(file, 'a', 0o600));
  chmodSync(file, 0o600);
  const connection = new DatabaseSync(file, {
    timeout: busyTimeoutMs,
    enableForeignKeyConstraints: true,
  });
  connection.exec('pragma journal_mode = wal');
  connection.exec('pragma synchronous = full');
  const db = new Kysely<Schema>({
    dialect: new SqliteDialect({ database: nodeSqlite(connection) }),
  });
  return { db, connection };
}
