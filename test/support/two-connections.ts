import { DatabaseSync } from 'node:sqlite';
import { join } from 'node:path';

import { onTestFinished } from 'vitest';

import { temporaryFolder } from './temporary-folder.ts';

/** Two connections to one new database file, as two processes have; both are closed at the end of the test. */
export async function twoConnections(): Promise<readonly [DatabaseSync, DatabaseSync]> {
  const folder = await temporaryFolder();
  const open = () => {
    const connection = new DatabaseSync(join(folder.path, 'two.db'));
    connection.exec('pragma journal_mode = wal');
    return connection;
  };
  const both = [open(), open()] as const;
  onTestFinished(async () => {
    for (const connection of both) if (connection.isOpen) connection.close();
    await folder[Symbol.asyncDispose]();
  });
  return both;
}
