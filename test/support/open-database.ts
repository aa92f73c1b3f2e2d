import { openStoresAt, type OpenStores } from '#server/app/stores';

/** Every store over a new database in memory, gone with its `await using` scope. */
export async function openDatabase(): Promise<OpenStores & AsyncDisposable> {
  const stores = await openStoresAt(':memory:');
  return { ...stores, [Symbol.asyncDispose]: () => stores.close() };
}

/**
 * All rows of all tables but those named, to compare before and after: one text a table, one line a row. SQLite writes it, because
 * comparing the rows as objects takes most of the time of tests that do so hundreds of times.
 */
export function everyRow(
  connection: OpenStores['connection'],
  { except }: { except: readonly string[] },
): [table: string, rows: string][] {
  const namesIn = (sql: string) =>
    connection
      .prepare(sql)
      .all()
      .map(({ name }) => String(name));
  const tables = namesIn(`select name from sqlite_schema where type = 'table'`);
  return tables
    .filter((table) => !except.includes(table))
    .map((table) => {
      const columns = namesIn(`select name from pragma_table_info('${table}')`);
      const row = columns.map((column) => `quote("${column}")`).join(` || ' ' || `);
      const rows = `select group_concat(${row}, char(10)) as text from "${table}"`;
      return [table, String(connection.prepare(rows).get()?.['text'] ?? '')];
    });
}
