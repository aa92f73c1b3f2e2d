import { membersOf } from 'latchkey-mcp/json-value';
import type { BoundHost } from './connections-host.ts';
import { startingAssistants } from './assistant-views.ts';
import { assistants } from '#config/assistants';
import { ConfigurationError } from '#config/errors';
import { backUpFile, hashOf } from './file-backups.ts';
import { recordsOf } from './install.ts';
import { editFile, valueAt } from '#config/edit-file';
import type { JsonChange } from '#config/jsonc';
import { entriesIn, isLaunch } from '#config/launch-entry';
import { fileSnapshot, replaceFile } from '#config/replace-file';

/** An assistant that started the old name; `problem` if its file could not be changed. */
export type RenamedLaunch = {
  assistant: string;
  title: string;
  file: string;
  backup?: string;
  problem?: string;
};

/** Changes the entries in assistants' own files that start `from`, so that they start `to`. A file that fails does not stop the others. */
export async function renameLaunches(
  from: string,
  to: string,
  host: BoundHost,
): Promise<RenamedLaunch[]> {
  const renamed: RenamedLaunch[] = [];
  const starting = await startingAssistants(from, host);
  for (const [assistant, { title, file: fileOf, servers }] of Object.entries(assistants)) {
    if (!starting.includes(assistant)) continue;
    const file = fileOf(host);
    const one = { assistant, title, file };
    try {
      const backup = await renameIn({ file, servers }, { from, to }, host);
      renamed.push({ ...one, ...(backup !== undefined && { backup }) });
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
      renamed.push({ ...one, problem: error.message });
    }
  }
  return renamed;
}

/** Returns the path of the backup. */
async function renameIn(
  { file, servers: member }: { file: string; servers: string },
  { from, to }: { from: string; to: string },
  host: BoundHost,
): Promise<string | undefined> {
  return host.exclusively(`file ${file}`, async () => {
    const snapshot = await fileSnapshot(file);
    const servers = await valueAt(snapshot.bytes, file, [member]);
    const entries = entriesIn({ [member]: servers }, member);
    const keys = entries.map(({ key }) => key);
    const changes = entries
      .filter(({ entry }) => isLaunch(entry, from))
      .flatMap(({ path, entry }) => changesOf(path, entry, { from, to, keys }));
    const edited = await editFile(snapshot.bytes, file, changes);
    const records = recordsOf(host);
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

/** The entry also gets the new name as its key, unless another entry has it. */
function changesOf(
  path: readonly string[],
  entry: unknown,
  { from, to, keys }: { from: string; to: string; keys: readonly string[] },
): JsonChange[] {
  const members = membersOf(entry);
  // In OpenCode, the arguments follow the command in the same list.
  const list = Array.isArray(members['command']) ? 'command' : 'args';
  const words: unknown[] = Array.isArray(members[list]) ? members[list] : [];
  const connect = words.indexOf('connect');
  const at = words[connect + 1] === from ? connect + 1 : words.indexOf(from);
  const value = { ...members, [list]: words.map((word, index) => (index === at ? to : word)) };
  if (path.at(-1) !== from || keys.includes(to)) return [{ path, value }];
  return [
    { path, value: undefined },
    { path: [...path.slice(0, -1), to], value },
  ];
}
