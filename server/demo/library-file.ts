import { closeSync, mkdirSync, openSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { libraryRows } from './library-rows.ts';
import { libraryIndexes, libraryTables } from './library-tables.ts';

const version = 1;

/**
 * The path of the sample database, readable by this user only, which is made where it is missing or
 * of another version. It comes into place by a rename: whoever opens it sees all of it or none.
 */
export function libraryFile(dataDir: string): string {
  const file = join(dataDir, 'demo-library.db');
  if (versionOf(file) === version) return file;
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const draft = `${file}.${crypto.randomUUID()}`;
  try {
    closeSync(openSync(draft, 'wx', 0o600));
    fill(draft);
    renameSync(draft, file);
  } finally {
    rmSync(draft, { force: true });
  }
  return file;
}

function versionOf(file: string): number | undefined {
  try {
    const database = new DatabaseSync(file, { readOnly: true });
    try {
      return Number(database.prepare('pragma user_version').get()?.['user_version']);
    } finally {
      database.close();
    }
  } catch {
    // Missing, or no database: either way it is made anew.
    return undefined;
  }
}

function fill(file: string): void {
  const database = new DatabaseSync(file, { enableForeignKeyConstraints: true });
  try {
    database.exec('pragma journal_mode = off; pragma synchronous = off; begin');
    for (const { sql } of Object.values(libraryTables)) database.exec(sql);
    const inserts = new Map<string, ReturnType<DatabaseSync['prepare']>>();
    for (const { table, values } of libraryRows()) {
      let insert = inserts.get(table);
      if (!insert) {
        insert = database.prepare(`insert into ${table} values (${values.map(() => '?').join()})`);
        inserts.set(table, insert);
      }
      insert.run(...values);
    }
    for (const sql of libraryIndexes) database.exec(sql);
    database.exec(`pragma user_version = ${version}; commit; analyze`);
  } finally {
    database.close();
  }
}
