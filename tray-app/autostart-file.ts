import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { AutostartFile } from '#login-start';

/** Where the desktop of Linux looks for what starts with the session. */
export function autostartFile(
  env: Readonly<Record<string, string | undefined>>,
  home: string,
): AutostartFile {
  const folder = env['XDG_CONFIG_HOME'] || join(home, '.config');
  const path = join(folder, 'autostart', 'latchkey.desktop');
  return {
    exists: () => existsSync(path),
    write(text) {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    },
    remove: () => rmSync(path, { force: true }),
  };
}
