import { existsSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

/**
 * The folder in which `installed-programs.ts` installed both programs from their packages; `undefined` where a test runs
 * them from the sources.
 */
const installed = process.env['TEST_PROGRAMS'];

/** What `node` runs to be `latchkey-server` as it is in a clone. */
export const serverSources = join(root, 'server/bin/latchkey-server.js');

/** What `node` runs to be `latchkey`. */
export const proxyLauncher = launcherOf('latchkey', join(root, 'proxy/bin/latchkey.js'));

/** What `node` runs to be `latchkey-server`. */
export const serverLauncher = launcherOf('latchkey-server', serverSources);

/**
 * The arguments with which `node` is a running server, with the options for which the launcher would start Node once more. The
 * tests of `start` in `test/e2e/gateway/commands.test.ts` leave that to the launcher.
 */
export function serverStart(launcher = serverLauncher): string[] {
  return ['--max-semi-space-size=8', '--min-semi-space-size=8', launcher, 'start'];
}

/**
 * What a program is given although a test writes the rest of its environment itself: where other programs are, and the run's
 * cache of compiled code, without which every start compiles all of it again.
 */
export const inherited: Readonly<Record<string, string>> = Object.fromEntries(
  ['PATH', 'NODE_COMPILE_CACHE'].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  }),
);

function launcherOf(name: string, source: string): string {
  if (installed === undefined) return source;
  const file = join(installed, 'node_modules', name, 'bin', `${name}.js`);
  if (!existsSync(file)) throw new Error(`TEST_PROGRAMS: ${file} does not exist`);
  return file;
}
