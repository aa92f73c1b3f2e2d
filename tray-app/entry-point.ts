import { posix, win32 } from 'node:path';
import { packagedLauncher, type Launcher } from 'latchkey/accounts';

/** What an app knows of where it runs from. */
export type RunningApp = {
  platform: NodeJS.Platform;
  /** Whether this is the app as people install it (`app.isPackaged`). */
  packaged: boolean;
  /** Where the package keeps what is beside the app (`process.resourcesPath`). */
  resourcesPath: string;
  env: Readonly<Record<string, string | undefined>>;
  /** What starts the proxy from the sources. */
  sources: Launcher;
};

/**
 * What the app writes into assistants' files for them to start: the proxy's own executable that the package
 * carries, as the app's does not run as Node. From an AppImage, the image. Whether it will be there tomorrow is
 * asked when an entry is written, which a translocated macOS app or a disk image does not pass.
 */
export function entryPoint({
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
