import { posix } from 'node:path';
import type { Launcher } from './launch-entry.ts';

/**
 * How an assistant starts `program`, our executable of one file, whatever it came in. An AppImage hangs
 * its content under another path at each start, so there the image itself is started, which hands words
 * on to the executable within (`tray-app/packaging/AppRun`).
 *
 * AppImage, "Environment variables": APPIMAGE, APPDIR
 */
export function packagedLauncher(
  program: string,
  env: Readonly<Record<string, string | undefined>>,
): Launcher {
  const { APPIMAGE: image, APPDIR: mounted } = env;
  // A program that was itself started from somebody else's image inherits that image's variables.
  const within = mounted !== undefined && program.startsWith(`${posix.resolve(mounted)}/`);
  return { program: image !== undefined && image !== '' && within ? image : program };
}
