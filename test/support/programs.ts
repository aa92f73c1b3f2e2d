import { existsSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

/**
 * The folder in which `end-to-end-setup.ts` installed both programs from their packages; `undefined` where a test runs
 * them from the sources.
 */
const installed = process.env['TEST_PROGRAMS'];

/** The script that `node` runs as the `latchkey-server` of a clone. */
export const serverSources = join(root, 'server/bin/latchkey-server.js');

/** The script that `node` runs as `latchkey`. */
export const proxyLauncher = launcherOf('latchkey', join(root, 'proxy/bin/latchkey.js'));

/** The script that `node` runs as `latchkey-server`. */
export const serverLauncher = launcherOf('latchkey-server', serverSources);

/**
 * The arguments with which `node` runs a server, including the options for which the launcher would start Node once more. The
 * tests of `start` in `test/e2e/gateway/commands.test.ts` leave those options to the launcher.
 */
export function serverStart(launcher = serverLauncher): string[] {
  return ['--max-semi-space-size=8', '--min-semi-space-size=8', launcher, 'start'];
}

/**
 * The variables that a program gets even if a test writes the rest of its environment: where other programs are, and the run's
 * cache of compiled code, without which every start compiles all code again.
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
