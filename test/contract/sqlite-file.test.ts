import { execFile } from 'node:child_process';
import { chmod, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { inQuickTransaction } from '#server/store/sqlite/quick-transaction';
import { openStores } from '#server/stores';
import { temporaryFolder } from '#support/temporary-folder';

const acme = { id: 'org_acme', name: 'acme', createdAt: 1 };
const mode = async (file: string) => (await stat(file)).mode & 0o777;
const stores = pathToFileURL(join(import.meta.dirname, '../../server/stores.ts')).href;

/** Opens the database in a process of its own, adds `organization`, and says whether it was new. */
async function addInProcess(folder: string, organization: string): Promise<string> {
  const program = `
    const { openStores } = await import(${JSON.stringify(stores)});
    const stores = await openStores(process.argv[1]);
    const name = process.argv[2];
    console.log(await stores.organizations.add({ id: 'org_' + name + process.pid, name, createdAt: 1 }));
    await stores.close();`;
  const args = ['--input-type=module', '-e', program, folder, organization];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return stdout.trim();
}

test('the database and what SQLite keeps beside it can be read by their owner only', async () => {
  await using folder = await temporaryFolder();
  const opened = await openStores(folder.path);
  await opened.organizations.add(acme);
  const files = await readdir(folder.path);
  const modes = await Promise.all(files.map((file) => mode(join(folder.path, file))));
  await opened.close();

  expect(files).toEqual(expect.arrayContaining(['latchkey.db', 'latchkey.db-wal']));
  expect(new Set(modes)).toEqual(new Set([0o600]));
});

test('a database that others could read is closed to them before anything is read', async () => {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'latchkey.db');
  await writeFile(file, '');
  await chmod(file, 0o666);
  const opened = await openStores(folder.path);
  await opened.close();

  expect(await mode(file)).toBe(0o600);
});

test('the folder is made where there is none, for its owner only', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'deep', 'data');
  const opened = await openStores(path);
  await opened.close();

  expect(await mode(path)).toBe(0o700);
});

test('what was added is there when the database is opened again', async () => {
  await using folder = await temporaryFolder();
  const first = await openStores(folder.path);
  await first.organizations.add(acme);
  await first.close();
  const second = await openStores(folder.path);
  const found = await second.organizations.byName('acme');
  await second.close();

  expect(found).toEqual(acme);
});

test('processes that start together make one database, and one of them adds a name', async () => {
  await using folder = await temporaryFolder();
  const added = await Promise.all(
    Array.from({ length: 4 }, () => addInProcess(folder.path, 'acme')),
  );

  expect(added.toSorted()).toEqual(['false', 'false', 'false', 'true']);
});

test('a write of another process is seen by the next read', async () => {
  await using folder = await temporaryFolder();
  const opened = await openStores(folder.path);
  const before = await opened.organizations.byName('acme');
  await addInProcess(folder.path, 'acme');
  const after = await opened.organizations.byName('acme');
  await opened.close();

  expect([before, after?.name]).toEqual([undefined, 'acme']);
});

test('a transaction holds the write lock from its beginning, so that none fails half way', async () => {
  await using folder = await temporaryFolder();
  const opened = await openStores(folder.path);
  const impatient = new DatabaseSync(join(folder.path, 'latchkey.db'), { timeout: 0 });
  const begin = () => impatient.exec('begin immediate');

  await opened.db.transaction().execute(() => {
    expect(begin).toThrow('database is locked');
    return Promise.resolve();
  });

  expect(begin).not.toThrow();

  impatient.close();
  await opened.close();
});

test('only what is counted is written without waiting for the disk, also when it fails', async () => {
  await using folder = await temporaryFolder();
  const opened = await openStores(folder.path);
  const level = async (db = opened.db) =>
    (await sql<{ synchronous: number }>`pragma synchronous`.execute(db)).rows[0]?.synchronous;
  const before = await level();
  const meanwhile = await inQuickTransaction(opened.db, async (transaction) => level(transaction));
  const after = await level();
  const failing = inQuickTransaction(opened.db, () => Promise.reject(new Error('no')));
  await expect(failing).rejects.toThrow('no');
  const afterFailure = await level();
  await opened.close();

  expect({ before, meanwhile, after, afterFailure }).toEqual({
    before: 2,
    meanwhile: 1,
    after: 2,
    afterFailure: 2,
  });
});
