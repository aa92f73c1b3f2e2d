import { existsSync } from 'node:fs';
import { appendFile, copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { layOutApp } from '#scripts/tray';
import { runProgram } from '#support/processes';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

const root = join(import.meta.dirname, '../../..');
const tray = join(root, 'tray-app');
const packaging = join(tray, 'build');
const buildLimitMs = 240_000;

async function done(command: string, args: string[], cwd: string): Promise<string> {
  const env = { NODE_OPTIONS: undefined, LATCHKEY_HOMEPAGE: undefined };
  const { code, stdout, stderr } = await runProgram(command, {
    args,
    cwd,
    env,
    timeoutMs: buildLimitMs,
  });
  if (code !== 0)
    throw new Error(`${command} ${args.join(' ')} ended with ${code}: ${stdout}${stderr}`);
  return stdout;
}

/** The files in `folder` that run, without licenses and descriptions. */
async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && !/\.(md|json)$/.test(entry.name))
    .map(({ parentPath, name }) => relative(folder, join(parentPath, name)))
    .sort();
}

/**
 * A folder laid out as an unpacked Electron is, with another program in its place that has an Electron's
 * fuses, all on: the real one comes from a host that tests do not reach.
 */
async function standIn(folder: string): Promise<string> {
  const dist = join(folder, 'electron');
  await mkdir(join(dist, 'resources'), { recursive: true });
  for (const name of ['electron', 'chrome-sandbox', 'chrome_crashpad_handler'])
    await copyFile('/bin/true', join(dist, name));
  const wire = Buffer.concat([
    Buffer.from('dL7pKGdnNz796PbbjQWNKmHXBZaB9tsX'),
    Buffer.from([1, 8]),
    Buffer.from('1'.repeat(8)),
  ]);
  await appendFile(join(dist, 'electron'), wire);
  for (const name of ['version', 'LICENSE', 'LICENSES.chromium.html'])
    await writeFile(join(dist, name), '45.0.0');
  return dist;
}

/** A stand-in for the app, which has tests of its own. */
async function someApp(folder: string): Promise<string> {
  const app = join(folder, 'app');
  await mkdir(app);
  await writeFile(join(app, 'main.js'), 'import "electron";');
  layOutApp(app, {});
  return app;
}

await suite('registry', 'electron-builder', () => {
  test.skipIf(process.platform !== 'linux')(
    'builds the app with our fuses and the proxy beside it, which it starts',
    { timeout: 2 * buildLimitMs },
    async () => {
      await using folder = await temporaryFolder('packaged');
      const program = (await done(process.execPath, [join(root, 'scripts/sea.ts')], root)).trim();
      const builder = join(packaging, 'node_modules/electron-builder/cli.js');
      if (!existsSync(builder))
        await done('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], packaging);

      await done(
        process.execPath,
        [
          builder,
          `--project=${tray}`,
          '--config=build/electron-builder.ts',
          '--linux=dir',
          '--publish=never',
          '-c.electronVersion=45.0.0',
          `-c.electronDist=${await standIn(folder.path)}`,
          `-c.directories.app=${await someApp(folder.path)}`,
          `-c.directories.output=${join(folder.path, 'out')}`,
        ],
        root,
      );

      const unpacked = join(folder.path, 'out', 'linux-unpacked');
      const require = createRequire(join(packaging, 'node_modules/app-builder-lib/package.json'));
      const fuses: typeof readFuses = require('@electron/fuses').getCurrentFuseWire;
      const wire = await fuses(join(unpacked, 'latchkey-app'));
      const states = Object.entries(wire).filter(([name]) => /^\d$/.test(name));
      const carried = await readFile(join(unpacked, 'resources/latchkey'));
      const help = await done(join(unpacked, 'AppRun'), ['help'], folder.path);

      // RunAsNode, cookies, NODE_OPTIONS, inspection, integrity, ASAR only, snapshot, file privileges.
      expect(states.map(([, state]) => String.fromCharCode(state)).join('')).toBe('00001100');
      expect(carried.equals(await readFile(program))).toBe(true);
      expect(await filesIn(join(unpacked, 'resources'))).toEqual([
        'app.asar',
        expect.stringMatching(/^app\.asar\.unpacked.*keyring-\S+\.node$/),
        'latchkey',
      ]);
      expect(help).toContain('Connects AI assistants to MCP servers');
    },
  );
});

declare function readFuses(program: string): Promise<Record<string, number>>;
