import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

/** Where the program of Electron is, or why there is none and what would help, in one line. */
export type ElectronBinary = { readonly path: string } | { readonly missing: string };

const limitMs = 10 * 60 * 1000;

/**
 * The program of Electron, which its package fetches when it is first asked for: from github.com, or from
 * ELECTRON_MIRROR; ELECTRON_OVERRIDE_DIST_PATH names a folder that has it.
 */
export function electronBinary(env: NodeJS.ProcessEnv): ElectronBinary {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['-e', 'process.stdout.write(`\\n${require("electron")}`)'],
    { cwd: join(import.meta.dirname, 'tray-app'), env, encoding: 'utf8', timeout: limitMs },
  );
  const path = stdout.split('\n').at(-1);
  if (status === 0 && path) return { path };
  const reason = stderr.split('\n').find((line) => /^\w*Error\b/.test(line));
  const why = reason ?? `its package ended with ${status ?? 'nothing within ten minutes'}`;
  return {
    missing:
      `Electron's program could not be had (${why}): it comes from github.com or ELECTRON_MIRROR, ` +
      'and ELECTRON_OVERRIDE_DIST_PATH names a folder that has it',
  };
}
