import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { runProgram } from '#support/processes';
import { proxyLauncher, serverLauncher } from '#support/programs';
import { temporaryFolder } from '#support/temporary-folder';

const cacheIn: Partial<Record<NodeJS.Platform, string>> = {
  darwin: 'Library/Caches/Latchkey/compile-cache',
  win32: 'AppData/Local/Latchkey/compile-cache',
};
const caches = cacheIn[process.platform] ?? '.cache/latchkey/compile-cache';

/** A home folder, the folder for compiled code in it, and the start of a program there. */
async function prepared(launcher: string) {
  const home = await temporaryFolder('home');
  const environment = {
    HOME: home.path,
    LOCALAPPDATA: join(home.path, 'AppData/Local'),
    XDG_CACHE_HOME: undefined,
    NODE_COMPILE_CACHE: undefined,
    TMPDIR: home.path,
  };
  const start = async (env: Record<string, string | undefined> = {}) => {
    const args = [launcher, '--version'];
    const { code, stderr } = await runProgram(process.execPath, {
      args,
      cwd: home.path,
      env: { ...environment, ...env },
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  };
  const cache = join(home.path, caches);
  return {
    home: home.path,
    cache,
    start,
    [Symbol.asyncDispose]: () => home[Symbol.asyncDispose](),
  };
}

describe.each([
  ['latchkey', proxyLauncher],
  ['latchkey-server', serverLauncher],
])('%s: compiled code', (_, launcher) => {
  test("is cached in a folder of the user's own, and not in that for temporary files", async () => {
    await using place = await prepared(launcher);

    await place.start();

    expect(readdirSync(place.cache)).not.toEqual([]);
    expect(readdirSync(place.home)).toEqual([caches.split('/')[0]]);
  });

  test.skipIf(process.platform === 'win32')('is cached where only the user can read', async () => {
    await using place = await prepared(launcher);

    await place.start();

    expect((statSync(place.cache).mode & 0o777).toString(8)).toBe('700');
  });

  test.runIf(process.platform === 'linux')('is cached in XDG_CACHE_HOME', async () => {
    await using place = await prepared(launcher);

    await place.start({ XDG_CACHE_HOME: join(place.home, 'own') });

    expect(readdirSync(join(place.home, 'own/latchkey/compile-cache'))).not.toEqual([]);
    expect(readdirSync(place.home)).toEqual(['own']);
  });

  test.skipIf(process.platform === 'win32').each(['777', '720', '702'])(
    'is not cached where others can write: mode %s',
    async (mode) => {
      await using place = await prepared(launcher);
      mkdirSync(place.cache, { recursive: true });
      chmodSync(place.cache, Number.parseInt(mode, 8));

      await place.start();

      expect(readdirSync(place.cache)).toEqual([]);
    },
  );

  test.skipIf(process.platform === 'win32')('is not cached behind a symbolic link', async () => {
    await using place = await prepared(launcher);
    const target = join(place.home, 'target');
    mkdirSync(target, { mode: 0o700 });
    mkdirSync(dirname(place.cache), { recursive: true });
    symlinkSync(target, place.cache);

    await place.start();

    expect(readdirSync(target)).toEqual([]);
  });

  test.skipIf(process.platform === 'win32')('is not cached where HOME is no folder', async () => {
    await using place = await prepared(launcher);

    await place.start({ HOME: '/dev/null' });
    await place.start({ HOME: 'relative' });

    expect(readdirSync(place.home)).toEqual([]);
  });

  test('is cached in NODE_COMPILE_CACHE if that is set', async () => {
    await using place = await prepared(launcher);
    const chosen = join(place.home, 'chosen');

    await place.start({ NODE_COMPILE_CACHE: chosen });

    expect(readdirSync(chosen)).not.toEqual([]);
    expect(existsSync(place.cache)).toBe(false);
  });

  test('is not cached with NODE_DISABLE_COMPILE_CACHE', async () => {
    await using place = await prepared(launcher);

    await place.start({ NODE_DISABLE_COMPILE_CACHE: '1' });

    expect(readdirSync(place.home)).toEqual([]);
  });
});
