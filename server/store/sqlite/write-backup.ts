import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, linkSync, openSync, rmSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';

/**
 * Writes everything that the database holds at this moment to the new file `file` (mode 0600), while others go on
 * reading and writing. The file is there whole or not at all, and on disk once this returns.
 *
 * @throws the file system's error; `EEXIST` where something is there already
 */
export function writeBackup(connection: DatabaseSync, file: string): void {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  closeSync(openSync(draft, 'wx', 0o600));
  try {
    connection.prepare('vacuum into ?').run(draft);
    const written = openSync(draft, 'r+');
    fsyncSync(written);
    closeSync(written);
    linkSync(draft, file);
  } finally {
    rmSync(draft, { force: true });
  }
}
