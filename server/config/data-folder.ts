import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { isPermissionFault, mayNot } from '#model/running-user';
import { CommandError } from './usage-error.ts';

/**
 * Creates a data folder, and those that contain it, if it is missing. Only this user can read it.
 *
 * @throws {CommandError} if it cannot be created
 */
export function makeDataFolder(folder: string): void {
  try {
    makeFolder(folder);
  } catch (cause) {
    const why = isPermissionFault(cause)
      ? mayNot('create it')
      : cause instanceof Error
        ? cause.message
        : String(cause);
    throw new CommandError(
      `the data folder ${folder} cannot be created: ${why}`,
      'choose another folder with --data-dir',
      { cause },
    );
  }
}

/** Creates one folder after the other: Node's recursive `mkdir` never returns in a folder like /proc, where it fails with ENOENT. */
function makeFolder(folder: string): void {
  if (isFolder(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have created it.
    if (!isFolder(folder)) throw error;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
