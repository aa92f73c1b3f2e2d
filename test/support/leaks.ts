import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The command lines of all processes of this machine, or, with a folder, of those whose environment names it: other tests run programs
 * with credentials of their own.
 */
export function everyCommandLine(folder = ''): string {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids
    .map((pid) => {
      try {
        const isMeant = folder === '' || readFileSync(`/proc/${pid}/environ`).includes(folder);
        return isMeant ? readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ') : '';
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
