/**
 * `npm run test:electron`: tests what only the real Electron shows, on a machine with Electron and a screen. Without
 * them it prints that nothing was tested, and exits with 1. `npm test` runs none of these tests.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { buildApp, electronBinary } from '#scripts/tray';

const root = join(import.meta.dirname, '../..');
const { env, platform } = process;
const found = electronBinary(env);
const screen = platform !== 'linux' || env['DISPLAY'] || env['WAYLAND_DISPLAY'];

if ('missing' in found) refuse(found.missing);
else if (!screen) refuse('there is no screen; xvfb-run npm run test:electron brings one');
else {
  const folder = join(root, 'tray-app/dist/app');
  await buildApp(folder);
  const vitest = spawn(
    process.execPath,
    [
      join(root, 'node_modules/vitest/vitest.mjs'),
      'run',
      `--config=${join(import.meta.dirname, 'vitest.config.ts')}`,
      ...process.argv.slice(2),
    ],
    {
      cwd: root,
      stdio: 'inherit',
      env: { ...env, LATCHKEY_TEST_ELECTRON: found.path, LATCHKEY_TEST_APP: folder },
    },
  );
  process.exitCode = await new Promise((resolve) => {
    vitest.on('close', (code) => resolve(code ?? 1)).on('error', () => resolve(1));
  });
}

function refuse(why: string): void {
  const line = '!'.repeat(72);
  console.error(`${line}\nNOT TESTED: the app in the real Electron\n${why}\n${line}`);
  process.exitCode = 1;
}
