import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  databaseName,
  openStores,
  openStoresAt,
  type OpenStores,
  storesOver,
} from '#server/app/stores';
import { openSqlite } from '#server/db/sqlite/open-sqlite';

/**
 * An empty database with the newest schema, as a file and as SQL. Migrations take ten times as long as its SQL, so each worker runs
 * them once.
 */
let newest: Promise<{ readonly bytes: Uint8Array; readonly sql: string }> | undefined;

async function migrated() {
  const stores = await openStoresAt(':memory:');
  const { connection } = stores;
  const textsOf = (sql: string) =>
    connection
      .prepare(sql)
      .all()
      .map(({ text }) => String(text));
  const made = textsOf(
    `select sql as text from sqlite_schema where sql is not null and name not like 'sqlite%' order by rowid`,
  );
  const rows = textsOf(
    `select name as text from sqlite_schema where type = 'table' and name not like 'sqlite%'`,
  ).flatMap((table) => {
    const columns = textsOf(`select name as text from pragma_table_info('${table}')`);
    const values = columns.map((column) => `quote("${column}")`).join(` || ', ' || `);
    return textsOf(`select ${values} as text from "${table}"`).map(
      (row) => `insert into "${table}" values (${row})`,
    );
  });
  const isTrigger = (sql: string) => /^create trigger/i.test(sql);
  // Triggers are last, as they do something with rows.
  const statements = [...made.filter((sql) => !isTrigger(sql)), ...rows, ...made.filter(isTrigger)];
  const sql = ['begin', ...statements, 'commit'].join(';\n');
  const bytes = connection.serialize();
  await stores.close();
  return { bytes, sql };
}

/** Every store over a new database in memory, as `openStoresAt` makes them, gone with its `await using` scope. */
export async function openDatabase(): Promise<OpenStores & AsyncDisposable> {
  const { sql } = await (newest ??= migrated());
  const opened = openSqlite(':memory:');
  // Not by `deserialize`, which ends the statements that are prepared already.
  opened.connection.exec(sql);
  const stores = storesOver(opened);
  return { ...stores, [Symbol.asyncDispose]: () => stores.close() };
}

/** Opens the database in `dataDir`, as `openStores` does; a new one where there is none. */
export async function openDatabaseIn(dataDir: string): Promise<OpenStores> {
  await layOutDatabase(dataDir);
  return openStores(dataDir);
}

/** Puts an empty database with the newest schema into `dataDir`, which it makes, where there is none. A server need not migrate it. */
export async function layOutDatabase(dataDir: string): Promise<void> {
  const file = join(dataDir, databaseName);
  const { bytes } = await (newest ??= migrated());
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  if (!existsSync(file)) writeFileSync(file, bytes, { mode: 0o600 });
}

type Connection = OpenStores['connection'];

/** For each database, what reads the rows of each table as one text, each row a line. */
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
