import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { BoundHost } from './connections-host.ts';
import { registered, checkName, unknownName } from './registry.ts';
import { assistantFile, assistantFiles, type AssistantFile } from '#config/assistants';
import { startingAssistants } from './assistant-views.ts';
import { ConfigurationError, UsageError } from '#config/errors';
import { backUpFile, hashOf, installRecords, type InstallRecord } from './file-backups.ts';
import { editFile, valueAt } from '#config/edit-file';
import { entriesIn, isLaunch, shapedEntry } from '#config/launch-entry';
import { fileSnapshot, replaceFile, type FileSnapshot } from '#config/replace-file';
import { dataFolder, removeStableLauncher, stableLauncher } from './stable-launcher.ts';

/** `changed` is `false` if the file had the entry already. */
type Installed = { file: string; changed: boolean; backup?: string };

type InstallOptions = { env: Record<string, string>; host: BoundHost; replace: boolean };

/** @throws {UsageError} if our own file has no such connection */
export async function checkRegistered(name: string, host: BoundHost): Promise<void> {
  checkName(name);
  if (!(await registered(name, host))) throw await unknownName(name, host);
}

/**
 * Adds an entry that starts the connection `name` to the assistant's file, and keeps the rest of the file.
 *
 * @throws {UsageError} if an entry of that name starts something else and may not be replaced
 */
export async function installLaunch(
  name: string,
  { title, file, servers, shape }: AssistantFile,
  { env, host, replace }: InstallOptions,
): Promise<Installed> {
  const entry = shapedEntry(await stableLauncher(host), name, { shape, env });
  return host.exclusively(`file ${file}`, async () => {
    const snapshot = await fileSnapshot(file);
    const path = await placeOf(snapshot, servers, name);
    const edited = await editFile(snapshot.bytes, file, [{ path, value: entry }]);
    const found = await valueAt(snapshot.bytes, file, path);
    if (JSON.stringify(found) === JSON.stringify(entry)) return { file, changed: false };
    if (found !== undefined && !isLaunch(found, name) && !replace)
      throw new UsageError(
        `${title} has an entry ${name} that starts something else: ${file}`,
        'add --replace, or import the entry with latchkey import',
      );
    const backup = await backUpFile(snapshot, host.clock.now());
    await replaceFile(snapshot, edited);
    const records = recordsOf(host);
    await records.keep(snapshot.realPath, name, {
      after: hashOf(edited),
      ...(backup !== undefined && { backup }),
      ...(snapshot.bytes && { before: hashOf(snapshot.bytes) }),
    });
    return { file, changed: true, ...(backup !== undefined && { backup }) };
  });
}

/** The path of the entry with that name, or of a new one. */
async function placeOf(
  { bytes, path }: FileSnapshot,
  servers: string,
  name: string,
): Promise<readonly string[]> {
  const entries = entriesIn({ [servers]: await valueAt(bytes, path, [servers]) }, servers);
  return entries.find(({ key }) => key === name)?.path ?? [servers, name];
}

/** The records of all installations of this user. */
export function recordsOf({ stateDirectory }: Pick<BoundHost, 'stateDirectory'>) {
  return installRecords(join(stateDirectory, 'installs'));
}

/** `restored`: the file is byte for byte as before. `removed`: only the entry was removed. `absent`: there was no entry. */
type Uninstalled = { did: 'restored' | 'removed' | 'absent'; backup?: string };

/**
 * Removes a connection from an assistant's file: restores the original file or, if it has changed since, removes the entry.
 *
 * @throws {UsageError} if the entry starts something else
 */
export async function uninstallLaunch(
  name: string,
  { title, file, servers }: AssistantFile,
  host: BoundHost,
): Promise<Uninstalled> {
  return host.exclusively(`file ${file}`, async () => {
    const snapshot = await fileSnapshot(file);
    const records = recordsOf(host);
    const record = await records.of(snapshot.realPath, name);
    const path = await placeOf(snapshot, servers, name);
    const done = await undoInstall(snapshot, record, path, { title, host });
    await records.drop(snapshot.realPath, name);
    if (await records.isEmpty()) await removeUnusedCopy(host);
    return done;
  });
}

/**
 * Removes the entry that Latchkey wrote for a connection from an assistant's file, and nothing else. The previous file is kept in a
 * backup. An entry that someone else wrote, or changed to start something else, stays.
 *
 * @returns the backup; `undefined` if there is no such entry of ours
 */
export async function withdrawLaunch(
  name: string,
  { file, servers }: AssistantFile,
  host: BoundHost,
): Promise<string | undefined> {
  return host.exclusively(`file ${file}`, async () => {
    const snapshot = await fileSnapshot(file);
    const records = recordsOf(host);
    if (!(await records.of(snapshot.realPath, name))) return undefined;
    const path = await placeOf(snapshot, servers, name);
    if (!isLaunch(await valueAt(snapshot.bytes, file, path), name)) return undefined;
    const edited = await editFile(snapshot.bytes, file, [{ path, value: undefined }]);
    const backup = await backUpFile(snapshot, host.clock.now());
    await replaceFile(snapshot, edited);
    await records.drop(snapshot.realPath, name);
    return backup;
  });
}

/** The result for the entries of a connection that is removed. */
export type UninstalledEverywhere = {
  uninstalled: { assistant: string; title: string; file: string }[];
  /** Why some files could not be changed, so that the user has to. */
  failures: string[];
  /** The assistants that still start the connection. */
  startedBy: string[];
};

/** Removes a connection from the files of all assistants that start it. */
export async function uninstallEverywhere(
  name: string,
  host: BoundHost,
): Promise<UninstalledEverywhere> {
  const uninstalled: UninstalledEverywhere['uninstalled'] = [];
  const failures: string[] = [];
  for (const assistant of await startingAssistants(name, host)) {
    try {
      const target = assistantFile(assistant, undefined, host);
      const { did } = await uninstallLaunch(name, target, host);
      const { title, file } = target;
      if (did !== 'absent') uninstalled.push({ assistant, title, file });
    } catch (error) {
      if (!(error instanceof UsageError || error instanceof ConfigurationError)) throw error;
      failures.push(error.message);
    }
  }
  return { uninstalled, failures, startedBy: await startingAssistants(name, host) };
}

/** Removes the program's copies for assistants unless an entry that `import` made still starts one. */
async function removeUnusedCopy(host: BoundHost): Promise<void> {
  const folder = dataFolder(host);
  const spellings = [folder, JSON.stringify(folder).slice(1, -1)];
  const isUsed = assistantFiles(host).some((file) => {
    try {
      const text = host.readText(file) ?? '';
      return spellings.some((spelling) => text.includes(spelling));
    } catch {
      return true; // It cannot be read now, and may use the copy.
    }
  });
  if (!isUsed) await removeStableLauncher(host);
}

async function undoInstall(
  snapshot: FileSnapshot,
  record: InstallRecord | undefined,
  path: readonly string[],
  { title, host }: { title: string; host: BoundHost },
): Promise<Uninstalled> {
  const { bytes } = snapshot;
  const before = await bytesBefore(record);
  if (bytes && record && !record.masked && hashOf(bytes) === record.after && before !== 'lost') {
    await replaceFile(snapshot, before);
    if (record.backup !== undefined) await rm(record.backup, { force: true });
    return { did: 'restored' };
  }
  const name = path.at(-1);
  const found = await valueAt(bytes, snapshot.path, path);
  if (found === undefined) return { did: 'absent' };
  if (!isLaunch(found))
    throw new UsageError(
      `the entry ${name} of ${title} starts something else: ${snapshot.path}`,
      'remove the entry there if you do not need it',
    );
  const earlier = before === 'lost' ? undefined : await valueAt(before, snapshot.path, path);
  const value = isLaunch(earlier, name) ? undefined : earlier;
  const edited = await editFile(bytes, snapshot.path, [{ path, value }]);
  const backup = await backUpFile(snapshot, host.clock.now());
  await replaceFile(snapshot, edited);
  return { did: 'removed', ...(backup !== undefined && { backup }) };
}

/** The contents of the file before: `undefined` if there was none, `lost` if they are unknown. */
async function bytesBefore(
  record: InstallRecord | undefined,
): Promise<Buffer | undefined | 'lost'> {
  if (!record) return 'lost';
  if (record.before === undefined) return undefined;
  const bytes = await readFile(record.backup ?? '').catch(() => undefined);
  return bytes && hashOf(bytes) === record.before ? bytes : 'lost';
}
