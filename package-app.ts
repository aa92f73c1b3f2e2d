/**
 * `npm run app`: tray-app/dist/packages, what a person installs who has no Node: the app, its Electron, and
 * the proxy as one executable. It is made on the system it is for. Arguments go to electron-builder, which
 * comes from a lock of its own, without its scripts: `npm run app -- --linux AppImage`.
 *
 * Electron comes from github.com, from ELECTRON_MIRROR, or with `-c.electronDist=FOLDER` from here. A .deb
 * names the publisher's page, LATCHKEY_HOMEPAGE.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildApp } from './build-app.ts';

type Manifest = { version: string; devDependencies?: Record<string, string> };

const root = import.meta.dirname;
const tray = join(root, 'tray-app');
const app = join(tray, 'dist/app');
const packaging = join(tray, 'packaging');

execFileSync(process.execPath, [join(root, 'sea.ts')], { stdio: 'inherit' });
await buildApp(app, { homepage: process.env['LATCHKEY_HOMEPAGE'] });
const builder = electronBuilder();
const electron = manifest(tray).devDependencies?.['electron'];
const ours = ['--config=electron-builder.ts', `-c.electronVersion=${electron}`, '--publish=never'];
execFileSync(process.execPath, [builder, `--project=${tray}`, ...ours, ...process.argv.slice(2)], {
  stdio: 'inherit',
});

function manifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
}

/** Its command, installed from its own lock where it is not there yet. */
function electronBuilder(): string {
  const folder = join(packaging, 'node_modules/electron-builder');
  const wanted = manifest(packaging).devDependencies?.['electron-builder'];
  if (!existsSync(folder) || manifest(folder).version !== wanted)
    execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], {
      cwd: packaging,
      stdio: 'inherit',
      // npm is a script on Windows, which only a shell starts; the words are ours.
      shell: process.platform === 'win32',
    });
  return join(folder, 'cli.js');
}
