import { existsSync } from 'node:fs';
import { dirname, join, posix, win32 } from 'node:path';
import { packagedLauncher, type Launcher } from 'latchkey/accounts';

/** Where an app runs from. */
export type RunningApp = {
  platform: NodeJS.Platform;
  /** Whether this is the installed app (`app.isPackaged`). */
  packaged: boolean;
  /** The folder of the files beside the app (`process.resourcesPath`). */
  resourcesPath: string;
  env: Readonly<Record<string, string | undefined>>;
  /** The command that starts the proxy from the sources. */
  sources: Launcher;
};

/**
 * The command that the app writes into the files of assistants: the executable of the proxy in the package, because the app's own
 * does not run as Node. For an AppImage it is the image. Whether the path is stable is checked when an entry is written; a
 * translocated macOS app and a disk image fail that check.
 */
export function proxyLauncher({
  platform,
  packaged,
  resourcesPath,
  env,
  sources,
}: RunningApp): Launcher {
  if (!packaged) return sources;
  const program =
    platform === 'win32'
      ? win32.join(resourcesPath, 'latchkey.exe')
      : posix.join(resourcesPath, 'latchkey');
  return packagedLauncher(program, env);
}

/** The command that starts the proxy from the sources, in the tree that the app at `here` was built in. */
export function sourcesLauncher(here: string, node: string): { node: string; script: string } {
  const script = join('proxy', 'bin', 'latchkey.js');
  let folder = here;
  while (!existsSync(join(folder, script)) && folder !== dirname(folder)) folder = dirname(folder);
  return { node, script: join(folder, script) };
}
