import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Whether the app starts when the user logs in. */
export interface LoginStart {
  isOn(): boolean;
  set(on: boolean): void;
}

/** The desktop entry that a Linux desktop reads at login. */
type AutostartFile = {
  exists: () => boolean;
  write: (text: string) => void;
  remove: () => void;
};

/**
 * The setting on Linux, where Electron has none: a desktop entry in the autostart folder. `command` must stay valid after updates,
 * so it is the path of an AppImage, not of its mount.
 *
 * Desktop Application Autostart Specification 0.5
 */
export function autostartEntry(file: AutostartFile, command: string): LoginStart {
  return {
    isOn: () => file.exists(),
    set(on) {
      if (on) file.write(entry(command));
      else file.remove();
    },
  };
}

function entry(command: string): string {
  const quoted = command.replaceAll(/["`$\\]/g, String.raw`\$&`).replaceAll('%', '%%');
  return `[Desktop Entry]
Type=Application
Name=Latchkey
Exec="${quoted}" --hidden
Icon=latchkey
X-GNOME-Autostart-enabled=true
`;
}

/** The entry in the user's autostart folder. */
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
