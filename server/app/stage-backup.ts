import {
  accessSync,
  constants,
  copyFileSync,
  existsSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import type { StagedBackup } from '#cli/backup-commands';
import { makeDataFolder } from '#config/data-folder';
import { CommandError } from '#config/usage-error';
import { asServerUser, isMissing, isPermissionFault, mayNot } from '#model/running-user';
import { endSessionsAndLinks } from '#db/one-time';
import { isolateDatabase, problemOfDatabase } from '#db/sqlite/open-sqlite';
import { databaseName, openStores } from './stores.ts';

const stopIt = 'stop the server, and wait until running commands end';

export function databaseFile(dataDir: string): string {
  return join(dataDir, databaseName);
}

/**
 * Whether this data folder already contains a database.
 *
 * @throws {CommandError} if this user may not look into the folder, or not read the database
 */
export function isInUse(dataDir: string): boolean {
  const file = databaseFile(dataDir);
  try {
    if (statSync(file).size === 0) return false;
    accessSync(file, constants.R_OK);
    return true;
  } catch (cause) {
    if (isMissing(cause)) return false;
    if (!isPermissionFault(cause)) throw cause;
    // Without permission for the folder, not even `stat` succeeds.
    const isFolderClosed = cause instanceof Error && 'syscall' in cause && cause.syscall === 'stat';
    const closed = isFolderClosed ? `the data folder ${dataDir}` : file;
    throw new CommandError(`${closed} cannot be read: ${mayNot('read it')}`, asServerUser, {
      cause,
    });
  }
}

/**
 * Copies a backup into a folder inside `dataDir`, checks that all of it is readable, and migrates it to the newest schema. The
 * current data stays unchanged until `place` is called.
 *
 * @throws {CommandError} when `file` is not a backup, or `dataDir` cannot be created
 */
export async function stageBackup(file: string, dataDir: string): Promise<StagedBackup> {
  makeDataFolder(dataDir);
  const folder = await mkdtemp(join(dataDir, 'restoring-'));
  const staged = join(folder, databaseName);
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    copyFileSync(file, staged, constants.COPYFILE_EXCL);
    const problem = problemOfDatabase(staged);
    if (problem !== undefined) {
      throw new CommandError(
        `${file} ${problem}`,
        'name a file that `latchkey-server backup` wrote',
      );
    }
    const stores = await openStores(folder);
    return {
      stores,
      endSessionsAndLinks: () => endSessionsAndLinks(stores.db),
      async place() {
        await stores.close();
        if (!isolateDatabase(staged)) throw new Error(`${staged} is in use by another process`);
        const kept = setAside(dataDir);
        renameSync(staged, join(dataDir, databaseName));
        return kept;
      },
      async discard() {
        await stores.close();
        remove();
      },
    };
  } catch (error) {
    remove();
    throw error;
  }
}

/** Renames the current database, if there is one, and returns its new path. */
function setAside(dataDir: string): string | undefined {
  const current = join(dataDir, databaseName);
  if (!existsSync(current)) return undefined;
  if (!isolateDatabase(current)) {
    throw new CommandError(`another process has ${current} open`, stopIt);
  }
  let count = 1;
  while (existsSync(`${current}.replaced-${count}`)) count += 1;
  const kept = `${current}.replaced-${count}`;
  renameSync(current, kept);
  return kept;
}
