import type { AccountsHost } from '#host';
import { startingAssistants } from './assistant-views.ts';
import { assistants } from './assistants.ts';
import { backUpFile, hashOf, installRecords } from './file-backups.ts';
import { recordsFolder } from './install.ts';
import { editJson, memberAt, type JsonChange } from './jsonc.ts';
import { isLaunch } from './launch-entry.ts';
import type { Options } from './options.ts';
import { fileSnapshot, replaceFile } from './replace-file.ts';

export type RenamedLaunch = { assistant: string; title: string; file: string; backup?: string };

/** Lets the entries of the assistants' own files that start `from` start `to`. */
export async function renameLaunches(
  from: string,
  to: string,
  options: Options,
  host: AccountsHost,
): Promise<RenamedLaunch[]> {
  const renamed: RenamedLaunch[] = [];
  const starting = await startingAssistants(from, host);
  for (const [assistant, { title, file, servers }] of Object.entries(assistants)) {
    if (!starting.includes(assistant)) continue;
    const path = file(host);
    const backup = await host.exclusively(`file ${path}`, options, async () => {
      const snapshot = await fileSnapshot(path);
      const entries = objectOf(await memberAt(snapshot.bytes, [servers]));
      const changes = Object.entries(entries)
        .filter(([, entry]) => isLaunch(entry, from))
        .flatMap(([key, entry]) => changesOf([servers, key], entry, { from, to, entries }));
      const edited = await editJson(snapshot.bytes, path, changes);
      const records = installRecords(recordsFolder(options, host));
      const record = await records.of(snapshot.realPath, from);
      const copy = await backUpFile(snapshot, host.clock.now());
      if (record) {
        const isUnchanged = snapshot.bytes && hashOf(snapshot.bytes) === record.after;
        const after = isUnchanged ? hashOf(edited) : record.after;
        await records.keep(snapshot.realPath, to, { ...record, after });
      }
      await replaceFile(snapshot, edited);
      await records.drop(snapshot.realPath, from);
      return copy;
    });
    renamed.push({ assistant, title, file: path, ...(backup !== undefined && { backup }) });
  }
  return renamed;
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
