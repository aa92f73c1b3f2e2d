/** Whether the app starts with the person's session. */
export interface LoginStart {
  isOn(): boolean;
  set(on: boolean): void;
}

/** A file of this path, as the desktop of Linux reads it. */
export type AutostartFile = {
  exists: () => boolean;
  write: (text: string) => void;
  remove: () => void;
};

/**
 * The same on Linux, where no system call asks for it: a desktop entry in the autostart folder. `command`
 * survives updates: an AppImage's own path, not the place it is mounted at.
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
