import { expect, test } from 'vitest';

import { openStoresAt } from '#server/app/stores';
import { everyRow, openDatabase, openDatabaseIn } from '#support/open-database';
import { temporaryFolder } from '#support/temporary-folder';

/** Everything that a database consists of, except for the times at which its migrations ran. */
const contentOf = ({ connection }: Awaited<ReturnType<typeof openStoresAt>>) => ({
  schema: connection.prepare('select type, name, sql from sqlite_schema order by type, name').all(),
  rows: everyRow(connection, { except: ['kysely_migration'] }),
  migrations: connection.prepare('select name from kysely_migration').all(),
});

test('databases of tests: they have what migrations make, in memory and in a file', async () => {
  await using folder = await temporaryFolder();
  const migrated = await openStoresAt(':memory:');
  await using inMemory = await openDatabase();
  const inFile = await openDatabaseIn(folder.path);

  const expected = contentOf(migrated);
  expect(contentOf(inMemory)).toEqual(expected);
  expect(contentOf(inFile)).toEqual(expected);
  expect(expected.schema.length).toBeGreaterThan(200);
  await Promise.all([migrated.close(), inFile.close()]);
});

test('databases of tests: what one writes is in no other', async () => {
  await using one = await openDatabase();
  one.connection.exec(`insert into organization (id, name, created_at) values ('a', 'acme', 1)`);
  await using other = await openDatabase();

  expect(other.connection.prepare('select * from organization').all()).toEqual([]);
});
