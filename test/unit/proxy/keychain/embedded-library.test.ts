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
import { embeddedLibrary } from '#proxy/keychain/embedded-library';
import { temporaryFolder } from '#support/temporary-folder';

const bytes = Buffer.from('a library');
const sha256 = createHash('sha256').update(bytes).digest('hex');
const library = { name: 'keyring', bytes, sha256 };
const host = { platform: process.platform, userId: userInfo().uid, now: Date.now() };
const dayMs = 24 * 60 * 60 * 1000;

test('embedded library: it is stored once, with its hash as name, in a folder that only its user can enter', async () => {
  await using home = await temporaryFolder();
  const folder = join(home.path, 'state', 'libraries');

  const path = await embeddedLibrary(library, folder, host);
  const { ino } = await stat(path);
  const again = await embeddedLibrary(library, folder, host);

  expect(path).toBe(join(folder, `keyring-${sha256}.node`));
  expect(await readFile(path)).toEqual(bytes);
  expect(await readdir(folder)).toHaveLength(1);
  expect((await stat(folder)).mode & 0o777).toBe(0o700);
  expect(again).toBe(path);
  expect((await stat(path)).ino).toBe(ino);
});

test('embedded library: a file with other bytes of the same length, or a link, is replaced', async () => {
  await using home = await temporaryFolder();
  const folder = join(home.path, 'libraries');
  const path = await embeddedLibrary(library, folder, host);
  await writeFile(path, 'A library');

  await embeddedLibrary(library, folder, host);
  const mended = await readFile(path);
  const elsewhere = join(home.path, 'elsewhere');
  await writeFile(elsewhere, bytes);
  await mkdir(join(home.path, 'two'), { mode: 0o700 });
  const second = join(home.path, 'two', `keyring-${sha256}.node`);
  await symlink(elsewhere, second);
  await embeddedLibrary(library, join(home.path, 'two'), host);
  await writeFile(elsewhere, 'changed');

  expect(mended).toEqual(bytes);
  expect(await readFile(second)).toEqual(bytes);
});

test('embedded library: a folder that others may enter or that another user owns is refused', async () => {
  await using home = await temporaryFolder();
  const folder = join(home.path, 'libraries');
  await embeddedLibrary(library, folder, host);
  const other = { ...host, userId: host.userId + 1 };

  await expect(embeddedLibrary(library, folder, other)).rejects.toThrow(
    'is accessible to other users',
  );
  await chmod(folder, 0o755);
  await expect(embeddedLibrary(library, folder, host)).rejects.toThrow('chmod 700');
});

test('embedded library: when one is stored, those of other versions are deleted after 90 days', async () => {
  await using home = await temporaryFolder();
  const folder = join(home.path, 'libraries');
  await mkdir(folder, { mode: 0o700 });
  for (const [name, days] of [
    ['keyring-old.node', 91],
    ['keyring-cut-short.partial', 91],
    ['keyring-recent.node', 89],
  ] as const) {
    await writeFile(join(folder, name), '');
    const at = new Date(host.now - days * dayMs);
    await utimes(join(folder, name), at, at);
  }

  const path = await embeddedLibrary(library, folder, host);

  expect((await readdir(folder)).map((name) => join(folder, name)).sort()).toEqual([
    path,
    join(folder, 'keyring-recent.node'),
  ]);
});
