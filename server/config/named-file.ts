// Files that options of commands name: reading them, and saying why one cannot be read.

import { closeSync, openSync, readSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';

import { mayNot, runningUser, type RunningUser } from '#model/running-user';
import { shellWord } from '#model/shell-word';
import { CommandError } from './usage-error.ts';

const mostBytes = 4 * 1024 * 1024;

/** A file that an option or an argument names, and how errors refer to it. */
interface NamedFile {
  /** The option that names it, without dashes; `undefined` for an argument. */
  readonly option?: string;
  readonly file: string;
  /**
   * The name and the hint that errors contain instead of the path: people may have typed a secret where the path belongs, so errors
   * must not repeat it.
   */
  readonly instead?: { readonly name: string; readonly hint: string };
}

/**
 * Reads a file of at most 4 MB. It need not be a regular one: `/dev/stdin` and the pipes of a shell are read, too.
 *
 * @throws {CommandError} that says why it cannot be read, and what to do
 */
export function readNamedFile(named: NamedFile): string {
  let bytes: Buffer;
  try {
    bytes = readUpTo(mostBytes + 1, named.file);
  } catch (cause) {
    throw unreadable(named, cause);
  }
  if (bytes.length <= mostBytes) return bytes.toString('utf8');
  const size = `larger than ${mostBytes / 1024 / 1024} MB`;
  throw new CommandError(`${subjectOf(named)} is ${size}`, 'check that it is the right file');
}

/**
 * Reads a secret from a file, without white space around it.
 *
 * @throws {CommandError} if it cannot be read or is empty
 */
export function readNamedSecret(file: string, option: string): string {
  const secret = readNamedFile({ option, file }).trim();
  if (secret !== '') return secret;
  throw new CommandError(`--${option} ${file} is empty`, 'write the secret into it');
}

/** An error that says why a file cannot be read, and what to do. */
export function unreadable(
  named: NamedFile,
  cause: unknown,
  user: RunningUser = runningUser(),
): CommandError {
  const subject = subjectOf(named);
  const { file, instead } = named;
  // If errors must not repeat the path, the cause is left out, because its message contains the path.
  const options = instead ? {} : { cause };
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown reason';
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR': {
      const path = isAbsolute(file) ? 'check the path' : `the path leads to ${resolve(file)}`;
      return new CommandError(`${subject} does not exist`, instead?.hint ?? path, options);
    }
    case 'EISDIR':
      return new CommandError(
        `${subject} is a folder, not a file`,
        instead?.hint ?? 'name a file',
        options,
      );
    case 'EACCES':
    case 'EPERM': {
      const message = `${subject} cannot be read: ${mayNot('read it', user)}`;
      return new CommandError(message, copyHint(named, user), options);
    }
    default:
      return new CommandError(`${subject} cannot be read (${code})`, instead?.hint, options);
  }
}

function copyHint({ file, instead }: NamedFile, { name = 'USER', platform }: RunningUser): string {
  if (platform === 'win32') return 'let that user read the file';
  const copied = instead ? 'FILE' : shellWord(file);
  return `copy it to a folder of that user, and delete the copy afterwards: sudo install -o ${shellWord(name)} -m 0600 ${copied} FOLDER`;
}

function subjectOf({ option, file, instead }: NamedFile): string {
  if (instead) return `--${option}: ${instead.name}`;
  return option === undefined ? file : `--${option} ${file}`;
}

function readUpTo(limit: number, file: string): Buffer {
  const handle = openSync(file, 'r');
  try {
    const chunks: Buffer[] = [];
    for (let left = limit; left > 0;) {
      const chunk = Buffer.alloc(Math.min(left, 64 * 1024));
      const length = readSync(handle, chunk);
      if (length === 0) break;
      chunks.push(chunk.subarray(0, length));
      left -= length;
    }
    return Buffer.concat(chunks);
  } finally {
    closeSync(handle);
  }
}
