import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { migrate } from '#db/migrate';
import { openSqlite, writeBackup } from '#db/sqlite/open-sqlite';

/** The file in the data folder that holds the database. */
export const databaseName = 'latchkey.db';

/** Opens the database in `dataDir`, at the newest schema; a new one where there is none. */
export async function openStores(dataDir: string) {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  return openStoresAt(join(dataDir, databaseName));
}

/** The same of a database file; `:memory:` is one that goes when it is closed. */
export async function openStoresAt(file: string) {
  const { db, connection } = openSqlite(file);
  await migrate(db);
  return {
    db,
    connection,
    backUp: (copy: string) => writeBackup(connection, copy),
    close: () => db.destroy(),
  };
}

export type OpenStores = Awaited<ReturnType<typeof openStoresAt>>;
