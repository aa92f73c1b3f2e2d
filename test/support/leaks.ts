import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The command lines of all processes of this machine. */
export function everyCommandLine(): string {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      } catch {
        return ''; // It ended meanwhile.
      }
    })
    .join('\n');
}

export function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
