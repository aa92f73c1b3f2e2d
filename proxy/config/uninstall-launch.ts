import { readFile, rm } from 'node:fs/promises';
import type { AccountsHost } from '#auth/accounts-host';
import { isLaunch } from './launch-entry.ts';
import type { Options } from './options.ts';
import { UsageError } from './usage-error.ts';
import { backUpFile } from './back-up-file.ts';
import { editJson } from './edit-json.ts';
import { fileSnapshot, type FileSnapshot } from './file-snapshot.ts';
import { hashOf, installRecords, type InstallRecord } from './install-record.ts';
import { memberAt } from './member-at.ts';
import { replaceFile } from './replace-file.ts';
import type { AssistantFile } from './assistant-file.ts';
import { recordsFolder } from './install-launch.ts';

/** `restored`: byte for byte as before. `removed`: the entry alone. `absent`: there was none. */
export type Uninstalled = { did: 'restored' | 'removed' | 'absent'; backup?: string };

/**
 * Takes a connection out of an assistant's file again: the file as it was, or without the one entry where
 * it has changed since.
 *
 * @throws {UsageError} when the entry starts something else
 */
export async function uninstallLaunch(
  name: string,
  { title, file, servers }: AssistantFile,
  options: Options,
  host: AccountsHost,
): Promise<Uninstalled> {
  return host.exclusively(`file ${file}`, options, async () => {
    const snapshot = await fileSnapshot(file);
    const records = installRecords(recordsFolder(options, host));
    const record = await records.of(snapshot.realPath, name);
    const done = await takeBack(snapshot, record, [servers, name], { title, host });
    await records.drop(snapshot.realPath, name);
    return done;
  });
}

async function takeBack(
  snapshot: FileSnapshot,
  record: InstallRecord | undefined,
  path: [servers: string, name: string],
  { title, host }: { title: string; host: AccountsHost },
): Promise<Uninstalled> {
  const { bytes } = snapshot;
  const before = await bytesBefore(record);
  if (bytes && record && !record.masked && hashOf(bytes) === record.after && before !== 'lost') {
    await replaceFile(snapshot, before);
    if (record.backup !== undefined) await rm(record.backup, { force: true });
    return { did: 'restored' };
  }
  const found = await memberAt(bytes, path);
  if (found === undefined) return { did: 'absent' };
  if (!isLaunch(found))
    throw new UsageError(
      `the entry ${path[1]} of ${title} starts something else: ${snapshot.path}`,
      'remove it there if you do not need it',
    );
  const earlier = before === 'lost' ? undefined : await memberAt(before, path);
  const value = isLaunch(earlier, path[1]) ? undefined : earlier;
  const edited = await editJson(bytes, snapshot.path, [{ path, value }]);
  const backup = await backUpFile(snapshot, host.clock.now());
  await replaceFile(snapshot, edited);
  return { did: 'removed', ...(backup !== undefined && { backup }) };
}

/** What the file held before: `undefined` when there was none, `lost` when nobody can tell. */
async function bytesBefore(
  record: InstallRecord | undefined,
): Promise<Buffer | undefined | 'lost'> {
  if (!record) return 'lost';
  if (record.before === undefined) return undefined;
  const bytes = await readFile(record.backup ?? '').catch(() => undefined);
  return bytes && hashOf(bytes) === record.before ? bytes : 'lost';
}
