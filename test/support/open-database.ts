import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import {
  databaseName,
  openStores,
  openStoresAt,
  type OpenStores,
  storesOver,
} from '#server/app/stores';
import { sqliteOver } from '#server/db/sqlite/open-sqlite';

/** An empty database with the newest schema, as the bytes of its file. Each worker runs the migrations once. */
let newest: Promise<Uint8Array> | undefined;

async function migrated(): Promise<Uint8Array> {
  const stores = await openStoresAt(':memory:');
  const bytes = stores.connection.serialize();
  await stores.close();
  return bytes;
}

/** Every store over a new database in memory, as `openStoresAt` makes them, closed at the end of its `await using` scope. */
export async function openDatabase(): Promise<OpenStores & AsyncDisposable> {
  const bytes = await (newest ??= migrated());
  const connection = new DatabaseSync(':memory:', { enableForeignKeyConstraints: true });
  // Faster than executing the statements. It comes before any `prepare`, because it finalizes prepared statements.
  connection.deserialize(bytes);
  const stores = storesOver(sqliteOver(connection));
  return { ...stores, [Symbol.asyncDispose]: () => stores.close() };
}

/** Opens the database in `dataDir`, as `openStores` does; a new one where there is none. */
export async function openDatabaseIn(dataDir: string): Promise<OpenStores> {
  await layOutDatabase(dataDir);
  return openStores(dataDir);
}

/** Makes `dataDir` and, if it has no database, puts an empty one with the newest schema there, which a server need not migrate. */
export async function layOutDatabase(dataDir: string): Promise<void> {
  const file = join(dataDir, databaseName);
  const bytes = await (newest ??= migrated());
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  if (!existsSync(file)) writeFileSync(file, bytes, { mode: 0o600 });
}

type Connection = OpenStores['connection'];

/** For each database, the functions that read the rows of each table as one text, one line a row. */
const readers = new WeakMap<Connection, ReadonlyMap<string, () => string>>();

function readersOf(connection: Connection) {
  const namesIn = (sql: string) =>
    connection
      .prepare(sql)
      .all()
      .map(({ name }) => String(name));
  const tables = namesIn(`select name from sqlite_schema where type = 'table'`);
  return new Map(
    tables.map((table) => {
      const columns = namesIn(`select name from pragma_table_info('${table}')`);
      const row = columns.map((column) => `quote("${column}")`).join(` || ' ' || `);
      const rows = `select group_concat(${row}, char(10)) as text from "${table}"`;
      const statement = connection.prepare(rows);
      return [table, () => String(statement.get()?.['text'] ?? '')];
    }),
  );
}

/**
 * All rows of all tables but those named, to compare before and after: one text a table, one line a row. SQLite writes it, because
 * comparing the rows as objects takes most of the time of tests that do so hundreds of times.
 */
export function everyRow(
  connection: Connection,
  { except }: { except: readonly string[] },
): [table: string, rows: string][] {
  const known = readers.get(connection) ?? readersOf(connection);
  readers.set(connection, known);
  return [...known]
    .filter(([table]) => !except.includes(table))
    .map(([table, read]) => [table, read()]);
}
