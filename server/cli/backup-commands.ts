import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

import { type StoredSigningKey, listSigningKeys } from '#db/signing-keys';
import { shellWord } from '#model/shell-word';
import type { Clock } from '#model/clock';
import { dataDir as dataDirOption, json, masterKeyFile } from '#config/option';
import type { Input } from '#config/read-options';
import { unreadable } from '#config/named-file';
import { CommandError } from '#config/usage-error';
import { databaseFault } from '#db/faults';
import { isMissing, isPermissionFault, mayNot } from '#model/running-user';
import { storeMasterKey, parseMasterKey, readMasterKey } from '#secrets/master-key';
import { areSealedUnder } from '#oauth/signing-keys';
import type { Command, CommandFacts } from '#admin/command';
import type { Stores } from '#admin/positionals';
import { printMade } from '#admin/print';
import { noteOperatorAction } from './audit-note.ts';

/** A backup, copied next to its destination and migrated to the newest schema, but not in use yet. */
export interface StagedBackup {
  readonly stores: Pick<Stores, 'db'>;
  /** Ends browser sessions, one-time links and invitations. Returns how many; `links` includes invitations. */
  endSessionsAndLinks(): Promise<{ readonly sessions: number; readonly links: number }>;
  /**
   * Replaces the current data with the backup.
   *
   * @returns the path that the previous data was moved to, or `undefined` if there was none
   * @throws {CommandError} while the previous data is in use
   */
  place(): Promise<string | undefined>;
  /** Closes and removes the staged copy. After `place`, only its empty folder is left to remove. */
  discard(): Promise<void>;
}

/** The ports of commands on the data folder itself, in which no store is open. */
export interface FolderPorts {
  /** @throws {CommandError} when `file` is not a backup */
  readonly stage: (file: string, dataDir: string) => Promise<StagedBackup>;
  /** Whether there is a database in the folder. */
  readonly isInUse: (dataDir: string) => boolean;
  /** The path of the database file in a data folder. */
  readonly databaseFile: (dataDir: string) => string;
  /** Whether a host on the internet accepts a connection for https. Nothing is sent. */
  readonly connects: (host: string) => Promise<boolean>;
  readonly clock: Clock;
  readonly out: (line: string) => void;
  /** Prompts for a secret, or reads it from piped input. */
  readonly readSecret: (prompt: string, what: string) => Promise<string>;
}

/** A command on the data folder itself, or on databases that it opens itself. It declares all its options. */
export interface FolderCommand extends CommandFacts {
  readonly runOnFolder: (input: Input, ports: FolderPorts) => Promise<void>;
}

export const backup: Command = {
  words: 'backup',
  positionals: ['FILE'],
  options: [json],
  doc: 'back up everything except the master key to a new file while the server runs',
  async run(input, { stores, clock, out }) {
    const file = resolve(input.positionals[0] ?? '');
    await noteOperatorAction('backup.create', { db: stores.db, clock });
    try {
      stores.backUp(file);
    } catch (cause) {
      throw unwritten(file, cause);
    }
    printMade({ file, created_at: clock.now() }, { json: input.flag('json'), out });
    if (!input.flag('json'))
      out(
        'hint: the backup does not contain the master key: store the key safely in another place',
      );
  },
};

/** Why a backup was not written. The error of the database names neither the file nor its disk. */
function unwritten(file: string, cause: unknown): unknown {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  const fault = (why: string, hint: string) => new CommandError(why, hint, { cause });
  if (code === 'EEXIST') return fault(`${file} already exists`, 'choose another file name');
  const folder = dirname(file);
  if (isMissing(cause)) {
    return fault(`there is no folder ${folder}`, 'create it, or choose another file');
  }
  if (isPermissionFault(cause)) {
    const why = `${file} cannot be written: ${mayNot(`write to ${folder}`)}`;
    return fault(why, 'choose a file in a folder of that user');
  }
  if (code === 'ENOSPC' || databaseFault(cause) === 'full') {
    const why = `${file} cannot be written: its disk is full, or the one for temporary files`;
    return fault(why, 'free disk space, or choose a file on another disk');
  }
  return cause;
}

export const restore: FolderCommand = {
  words: 'restore',
  positionals: ['FILE'],
  options: [
    masterKeyFile,
    { name: 'force', doc: 'replace the existing data, which is kept under another name' },
    json,
    dataDirOption,
  ],
  doc: 'restore a backup; asks for the master key if its file is missing',
  async runOnFolder(input, { stage, isInUse, clock, out, readSecret }) {
    const file = resolve(input.positionals[0] ?? '');
    const dataDir = resolve(input.must('data-dir'));
    if (!isReadableFile(file)) {
      throw new CommandError(
        `there is no file ${file}`,
        'name a file that `latchkey-server backup` wrote',
      );
    }
    if (isInUse(dataDir) && !input.flag('force')) {
      throw new CommandError(
        `${dataDir} already contains data`,
        'choose another folder with --data-dir, or replace the data with --force',
      );
    }
    const staged = await stage(file, dataDir);
    try {
      const keep = await provenMasterKey(
        await listSigningKeys(staged.stores.db),
        input,
        readSecret,
      );
      const ended = await staged.endSessionsAndLinks();
      await noteOperatorAction('backup.restore', { db: staged.stores.db, clock });
      const replaced = await staged.place();
      keep();
      const facts = {
        data_dir: dataDir,
        replaced: replaced ?? null,
        ended_sessions: ended.sessions,
        ended_links: ended.links,
        restored_at: clock.now(),
      };
      printMade(facts, { json: input.flag('json'), out });
    } finally {
      await staged.discard();
    }
    if (!input.flag('json')) {
      out(
        'hint: all sessions, one-time links and invitations of the backup were revoked: people must sign in again, and you must create new links',
      );
      out(
        'hint: assistants that renewed their access since the backup ask people to sign in again, within an hour: latchkey login NAME, or latchkey setup URL',
      );
      out(
        'hint: credentials that were revoked or removed after the backup are valid again: revoke them again',
      );
      const named = input.text('master-key-file');
      if (named !== undefined) {
        out(
          `hint: the server also needs the master key to start: latchkey-server start --master-key-file ${shellWord(named)}`,
        );
      }
    }
  },
};

/** @throws {CommandError} if this user may not read it */
function isReadableFile(file: string): boolean {
  try {
    accessSync(file, constants.R_OK);
    return statSync(file).isFile();
  } catch (cause) {
    if (isMissing(cause)) return false;
    throw unreadable({ file }, cause);
  }
}

/**
 * Makes sure that the master key matches the backup, and returns a function that stores the key if the user entered it.
 *
 * @throws {CommandError} if the key does not match
 */
async function provenMasterKey(
  keys: readonly StoredSigningKey[],
  input: Input,
  readSecret: FolderPorts['readSecret'],
): Promise<() => void> {
  const nothing = () => undefined;
  if (keys.length === 0) return nothing;
  const given = input.text('master-key-file');
  const file = given ?? join(input.must('data-dir'), 'master.key');
  if (given !== undefined || existsSync(file)) {
    const masterKey = readMasterKey(file, { mayCreate: false });
    if (areSealedUnder(masterKey, keys)) return nothing;
    throw new CommandError(
      `the master key ${file} does not match this backup`,
      'name the file of the matching key with --master-key-file',
    );
  }
  const text = await readSecret(
    'Master key of the backup (the text of its master.key): ',
    'master key',
  );
  const masterKey = parseMasterKey(text);
  if (masterKey && areSealedUnder(masterKey, keys)) return () => storeMasterKey(file, text);
  throw new CommandError(
    'the master key does not match this backup',
    `enter the text of its master.key, or copy that file to ${file}`,
  );
}
