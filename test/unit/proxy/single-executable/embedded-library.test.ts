import { createHash } from 'node:crypto';
import {
  chmod,
  mkdir,
  readdir,
  readFile,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { embeddedLibrary } from '#proxy/single-executable/embedded-library';
import { temporaryFolder } from '#support/temporary-folder';

const bytes = Buffer.from('a library');
const sha256 = createHash('sha256').update(bytes).digest('hex');
const library = { name: 'keyring', bytes, sha256 };
const machine = { platform: process.platform, userId: userInfo().uid, now: Date.now() };
const dayMs = 24 * 60 * 60 * 1000;

test('the library stands under its hash in a folder of this user alone, and stays as it is', async () => {
  await using home = await temporaryFolder();
  const folder = join(home.path, 'state', 'libraries');

  const path = await embeddedLibrary(library, folder, machine);
  const { ino } = await stat(path);
  const again = await embeddedLibrary(library, folder, machine);

  expect(path).toBe(join(folder, `keyring-${sha256}.node`));
  expect(await readFile(path)).toEqual(bytes);
  expect(await readdir(folder)).toHaveLength(1);
  expect((await stat(folder)).mode & 0o777).toBe(0o700);
  expect(again).toBe(path);
  expect((await stat(path)).ino).toBe(ino);
});

test('other bytes of the same length, and a link to a good file, are replaced', async () => {
  await using home = await temporaryFolder();
  const folder = join(home.path, 'libraries');
  const path = await embeddedLibrary(library, folder, machine);
  await writeFile(path, 'A library');

  await embeddedLibrary(library, folder, machine);
  const mended = await readFile(path);
  const elsewhere = join(home.path, 'elsewhere');
  await writeFile(elsewhere, bytes);
  await mkdir(join(home.path, 'two'), { mode: 0o700 });
  const second = join(home.path, 'two', `keyring-${sha256}.node`);
  await symlink(elsewhere, second);
  await embeddedLibrary(library, join(home.path, 'two'), machine);
  await writeFile(elsewhere, 'changed');

  expect(mended).toEqual(bytes);
  expect(await readFile(second)).toEqual(bytes);
});

test('a folder that others may enter, or that is somebody else’s, is refused', async () => {
  await using home = await temporaryFolder();
  const folder = join(home.path, 'libraries');
  await embeddedLibrary(library, folder, machine);
  const other = { ...machine, userId: machine.userId + 1 };

  await expect(embeddedLibrary(library, folder, other)).rejects.toThrow('is open to others');
  await chmod(folder, 0o755);
  await expect(embeddedLibrary(library, folder, machine)).rejects.toThrow('chmod 700');
});

test('what other versions left goes after 90 days, when a new one comes', async () => {
  await using home = await temporaryFolder();
  const folder = join(home.path, 'libraries');
  await mkdir(folder, { mode: 0o700 });
  for (const [name, days] of [
    ['keyring-old.node', 91],
    ['keyring-cut-short.partial', 91],
    ['keyring-recent.node', 89],
  ] as const) {
    await writeFile(join(folder, name), '');
    const at = new Date(machine.now - days * dayMs);
    await utimes(join(folder, name), at, at);
  }

  const path = await embeddedLibrary(library, folder, machine);

  expect((await readdir(folder)).map((name) => join(folder, name)).sort()).toEqual([
    path,
    join(folder, 'keyring-recent.node'),
  ]);
});
