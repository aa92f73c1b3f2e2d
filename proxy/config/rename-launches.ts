import type { AccountsHost } from '#host';
import { startingAssistants } from './assistant-views.ts';
import { assistants } from './assistants.ts';
import { ConfigurationError } from './errors.ts';
import { backUpFile, hashOf, installRecords } from './file-backups.ts';
import { recordsFolder } from './install.ts';
import { editJson, memberAt, type JsonChange } from './jsonc.ts';
import { isLaunch } from './launch-entry.ts';
import type { Options } from './options.ts';
import { fileSnapshot, replaceFile } from './replace-file.ts';

/** An assistant that started the old name; `problem` where its file was left as it is. */
export type RenamedLaunch = {
  assistant: string;
  title: string;
  file: string;
  backup?: string;
  problem?: string;
};

/** Lets the entries of the assistants' own files that start `from` start `to`; each file for itself. */
export async function renameLaunches(
  from: string,
  to: string,
  options: Options,
  host: AccountsHost,
): Promise<RenamedLaunch[]> {
  const renamed: RenamedLaunch[] = [];
  const starting = await startingAssistants(from, host);
  for (const [assistant, { title, file: fileOf, servers }] of Object.entries(assistants)) {
    if (!starting.includes(assistant)) continue;
    const file = fileOf(host);
    const one = { assistant, title, file };
    try {
      const backup = await renameIn({ file, servers }, { from, to }, options, host);
      renamed.push({ ...one, ...(backup !== undefined && { backup }) });
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
      renamed.push({ ...one, problem: error.message });
    }
  }
  return renamed;
}

/** Returns the backup. */
async function renameIn(
  { file, servers }: { file: string; servers: string },
  { from, to }: { from: string; to: string },
  options: Options,
  host: AccountsHost,
): Promise<string | undefined> {
  return host.exclusively(`file ${file}`, options, async () => {
    const snapshot = await fileSnapshot(file);
    const entries = objectOf(await memberAt(snapshot.bytes, [servers]));
    const changes = Object.entries(entries)
      .filter(([, entry]) => isLaunch(entry, from))
      .flatMap(([key, entry]) => changesOf([servers, key], entry, { from, to, entries }));
    const edited = await editJson(snapshot.bytes, file, changes);
    const records = installRecords(recordsFolder(options, host));
    const record = await records.of(snapshot.realPath, from);
    const backup = await backUpFile(snapshot, host.clock.now());
    if (record) {
      const isUnchanged = snapshot.bytes && hashOf(snapshot.bytes) === record.after;
      const after = isUnchanged ? hashOf(edited) : record.after;
      await records.keep(snapshot.realPath, to, { ...record, after });
    }
    await replaceFile(snapshot, edited);
    await records.drop(snapshot.realPath, from);
    return backup;
  });
}

/** The entry takes the new name as its key, too, unless another entry has it. */
function changesOf(
  [servers, key]: [servers: string, key: string],
  entry: unknown,
  { from, to, entries }: { from: string; to: string; entries: Record<string, unknown> },
): JsonChange[] {
  const members = objectOf(entry);
  const args: unknown[] = Array.isArray(members['args']) ? members['args'] : [];
  const connect = args.indexOf('connect');
  const at = args[connect + 1] === from ? connect + 1 : args.indexOf(from);
  const value = { ...members, args: args.map((word, index) => (index === at ? to : word)) };
  if (key !== from || Object.hasOwn(entries, to)) return [{ path: [servers, key], value }];
  return [
    { path: [servers, key], value: undefined },
    { path: [servers, to], value },
  ];
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
