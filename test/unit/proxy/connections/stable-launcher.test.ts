import { execFile } from 'node:child_process';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { stableLauncher } from '#proxy/connections/stable-launcher';
import { fakeClock } from '#support/fake-clock';
import { temporaryFolder } from '#support/temporary-folder';

const day = 24 * 60 * 60;

/** A person who installs one version of the package after another. */
async function person(platform: NodeJS.Platform) {
  const folder = await temporaryFolder('launcher');
  const data = join(folder.path, '.local', 'share', 'latchkey');
  const clock = fakeClock(2_000_000_000);
  return {
    clock,
    async install(version: string) {
      const found = join(folder.path, "dana's node", version, 'node_modules', 'latchkey');
      const script = join(found, 'bin', 'latchkey.js');
      await mkdir(join(found, 'dist'), { recursive: true });
      await mkdir(join(found, 'bin'), { recursive: true });
      await writeFile(join(found, 'package.json'), JSON.stringify({ version, type: 'module' }));
      await writeFile(join(found, 'dist', 'main.js'), version);
      await writeFile(script, `console.log(${JSON.stringify(version)}, process.argv[2]);`);
      const launcher = { node: process.execPath, script };
      const host = { platform, home: folder.path, env: {}, pid: 2, clock, launcher };
      return stableLauncher(host, data);
    },
    async versions() {
      const names = await readdir(join(data, 'app'));
      return names.map((name) => name.split('-')[0] ?? '').sort();
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

test('stable launcher: a copy stays for a week after a newer version replaced it, however old it is', async () => {
  await using at = await person('linux');
  await at.install('1.0.0');
  await at.clock.advance(300 * day);
  await at.install('2.0.0');
  const replaced = await at.versions();
  await at.clock.advance(6 * day);
  await at.install('3.0.0');
  const within = await at.versions();
  await at.clock.advance(2 * day);
  await at.install('3.0.0');

  expect(replaced).toEqual(['1.0.0', '2.0.0']);
  expect(within).toEqual(['1.0.0', '2.0.0', '3.0.0']);
  expect(await at.versions()).toEqual(['2.0.0', '3.0.0']);
});

test('stable launcher: a version that is installed again counts from its next replacement', async () => {
  await using at = await person('linux');
  await at.install('1.0.0');
  await at.install('2.0.0');
  await at.clock.advance(5 * day);
  await at.install('1.0.0');
  await at.clock.advance(5 * day);
  await at.install('2.0.0');

  expect(await at.versions()).toEqual(['1.0.0', '2.0.0']);
});

test.each(['linux', 'win32'] as const)(
  'stable launcher: on %s the entry of an assistant starts the newest version by the same path',
  async (platform) => {
    await using at = await person(platform);
    const first = await at.install('1.0.0');
    await at.clock.advance(300 * day);
    const second = await at.install('2.0.0');
    await at.clock.advance(300 * day);
    await at.install('2.0.0');

    const [command, ...args] = 'program' in first ? [first.program] : [first.node, first.script];
    const { stdout } = await promisify(execFile)(command, [...args, 'connect']);

    expect(second).toEqual(first);
    expect(stdout).toBe('2.0.0 connect\n');
  },
);
