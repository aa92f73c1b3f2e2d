import { existsSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { makeDataFolder } from '#server/config/data-folder';
import { CommandError } from '#server/config/usage-error';
import { temporaryFolder } from '#support/temporary-folder';

test('data folder: it is created with those that contain it, once', async () => {
  await using parent = await temporaryFolder();
  const folder = join(parent.path, 'a', 'b');
  makeDataFolder(folder);
  makeDataFolder(folder);

  expect(statSync(folder).isDirectory()).toBe(true);
});

test.skipIf(process.platform === 'win32')(
  'data folder: only this user can read what was created',
  async () => {
    await using parent = await temporaryFolder();
    const folder = join(parent.path, 'a', 'b');
    makeDataFolder(folder);

    expect(statSync(dirname(folder)).mode & 0o777).toBe(0o700);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  },
);

test('data folder: inside a file it is refused, with what to do', async () => {
  await using parent = await temporaryFolder();
  const file = join(parent.path, 'file');
  writeFileSync(file, '');

  expect(() => makeDataFolder(join(file, 'data'))).toThrow(CommandError);
  expect(() => makeDataFolder(join(file, 'data'))).toThrow(`the data folder ${join(file, 'data')}`);
});

test.skipIf(!existsSync('/proc/self'))(
  'data folder: in /proc, where nothing can be created, it is refused and does not hang',
  () => {
    expect(() => makeDataFolder('/proc/latchkey/data')).toThrow(
      /^the data folder \/proc\/latchkey\/data cannot be created: ENOENT/,
    );
  },
);
