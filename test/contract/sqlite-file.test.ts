import { execFile } from 'node:child_process';
import { chmod, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { findOrganization, insertOrganization } from '#server/db/organizations';
import { quickTransaction } from '#server/db/transaction';
import { lockDataFolder, openStores } from '#server/app/stores';
import { temporaryFolder } from '#support/temporary-folder';

const acme = { id: 'org_acme', name: 'acme', createdAt: 1 };
const mode = async (file: string) => (await stat(file)).mode & 0o777;
const source = (name: string) =>
  pathToFileURL(join(import.meta.dirname, `../../server/${name}.ts`)).href;

/** Opens the database in a process of its own, adds `organization`, and says whether it was new. */
async function addInProcess(folder: string, organization: string): Promise<string> {
  const program = `
    const { openStores } = await import(${JSON.stringify(source('app/stores'))});
    const { insertOrganization } = await import(${JSON.stringify(source('db/organizations'))});
    const stores = await openStores(process.argv[1]);
    const name = process.argv[2];
    console.log(await insertOrganization(stores.db, { id: 'org_' + name + process.pid, name, createdAt: 1 }));
    await stores.close();`;
  const args = ['--input-type=module', '-e', program, folder, organization];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return stdout.trim();
}

test('SQLite file: the database and SQLite’s files beside it are readable by their owner only', async () => {
  await using folder = await temporaryFolder();
  const opened = await openStores(folder.path);
  await insertOrganization(opened.db, acme);
  const files = await readdir(folder.path);
  const modes = await Promise.all(files.map((file) => mode(join(folder.path, file))));
  await opened.close();

  expect(files).toEqual(expect.arrayContaining(['latchkey.db', 'latchkey.db-wal']));
  expect(new Set(modes)).toEqual(new Set([0o600]));
});

test('SQLite file: a database that others could read becomes private before anything is read', async () => {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'latchkey.db');
  await writeFile(file, '');
  await chmod(file, 0o666);
  const opened = await openStores(folder.path);
  await opened.close();

  expect(await mode(file)).toBe(0o600);
});

test('SQLite file: a missing folder is created, accessible by its owner only', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'deep', 'data');
  const opened = await openStores(path);
  await opened.close();

  expect(await mode(path)).toBe(0o700);
});

test('SQLite file: what was added is there when the database is opened again', async () => {
  await using folder = await temporaryFolder();
  const first = await openStores(folder.path);
  await insertOrganization(first.db, acme);
  await first.close();
  const second = await openStores(folder.path);
  const found = await findOrganization(second.db, 'acme');
  await second.close();

  expect(found).toEqual(acme);
});

test('data folder: a second server is refused until the first one has ended, and commands are not', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'data');
  const lock = lockDataFolder(path);
  const stores = await openStores(path);
  await stores.close();

  expect(() => lockDataFolder(path)).toThrow(`another server uses the data folder ${path}`);
  expect(await mode(join(path, 'server.lock'))).toBe(0o600);

  lock.close();
  lockDataFolder(path).close();
});

test('SQLite file: processes that start together create one database, and one of them adds a name', async () => {
  await using folder = await temporaryFolder();
  const added = await Promise.all(
    Array.from({ length: 4 }, () => addInProcess(folder.path, 'acme')),
  );

  expect(added.toSorted()).toEqual(['false', 'false', 'false', 'true']);
});

test('SQLite file: a write of one process is seen by the next read of another', async () => {
  await using folder = await temporaryFolder();
  const opened = await openStores(folder.path);
  const before = await findOrganization(opened.db, 'acme');
  await addInProcess(folder.path, 'acme');
  const after = await findOrganization(opened.db, 'acme');
  await opened.close();

  expect([before, after?.name]).toEqual([undefined, 'acme']);
});

test('SQLite file: a transaction holds the write lock from its start, so that none fails half way', async () => {
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

test('SQLite file: only counters are written without waiting for the disk, even when a write fails', async () => {
  await using folder = await temporaryFolder();
  const opened = await openStores(folder.path);
  const level = async (db = opened.db) =>
    (await sql<{ synchronous: number }>`pragma synchronous`.execute(db)).rows[0]?.synchronous;
  const before = await level();
  const meanwhile = await quickTransaction(opened.db, async (transaction) => level(transaction));
  const after = await level();
  const failing = quickTransaction(opened.db, () => Promise.reject(new Error('no')));
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
