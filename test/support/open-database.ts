import { openStoresAt, type OpenStores } from '#server/app/stores';

/** Every store over a new database in memory, gone with its `await using` scope. */
export async function openDatabase(): Promise<OpenStores & AsyncDisposable> {
  const stores = await openStoresAt(':memory:');
  return { ...stores, [Symbol.asyncDispose]: () => stores.close() };
}

/** All rows of all tables but those named, to compare before and after. */
export function everyRow(
  connection: OpenStores['connection'],
  { except }: { except: readonly string[] },
): [table: string, rows: unknown[]][] {
  const tables = connection.prepare(`select name from sqlite_schema where type = 'table'`).all();
  const names = tables.map(({ name }) => String(name)).filter((name) => !except.includes(name));
  return names.map((name) => [name, connection.prepare(`select * from "${name}"`).all()]);
}
