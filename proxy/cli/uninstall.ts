import { readFile, rm } from 'node:fs/promises';
import { isLaunch } from '#config/launch-entry';
import { UsageError } from '#config/usage-error';
import { backUpFile } from '#editing/back-up-file';
import { editJson } from '#editing/edit-json';
import { fileSnapshot, type FileSnapshot } from '#editing/file-snapshot';
import { hashOf, installRecords, type InstallRecord } from '#editing/install-record';
import { memberAt } from '#editing/member-at';
import { replaceFile } from '#editing/replace-file';
import { assistantFile } from './assistant-file.ts';
import type { CommandInput } from './command.ts';
import { recordsFolder } from './install.ts';
import type { Machine } from './machine.ts';

/** `restored`: byte for byte as before. `removed`: the entry alone. `absent`: there was none. */
type Outcome = { did: 'restored' | 'removed' | 'absent'; backup?: string };

/** `latchkey uninstall`: the file as it was, or without the one entry where it has changed since. */
export async function uninstall(input: CommandInput, machine: Machine): Promise<void> {
  const [assistant = '', name = ''] = input.operands;
  const options = machine.options(input.options);
  const { title, file, servers } = assistantFile(assistant, input, machine);
  const outcome = await machine.exclusively(`file ${file}`, options, async () => {
    const snapshot = await fileSnapshot(file);
    const records = installRecords(recordsFolder(options, machine));
    const record = await records.of(snapshot.realPath, name);
    const done = await takeBack(snapshot, record, [servers, name], { title, machine });
    await records.drop(snapshot.realPath, name);
    return done;
  });
  if (input.flags.has('json'))
    return machine.say(JSON.stringify({ assistant, name, file, ...outcome }));
  const words = {
    restored: `${title} is as it was before ${name}: ${file}`,
    removed: `${title} starts ${name} no more: ${file}`,
    absent: `${title} did not start ${name}: ${file}`,
  };
  machine.say(words[outcome.did]);
  if (outcome.backup !== undefined) machine.tell(`the file as it was: ${outcome.backup}`);
}

async function takeBack(
  snapshot: FileSnapshot,
  record: InstallRecord | undefined,
  path: [servers: string, name: string],
  { title, machine }: { title: string; machine: Machine },
): Promise<Outcome> {
  const { bytes } = snapshot;
  const before = await bytesBefore(record);
  if (bytes && record && hashOf(bytes) === record.after && before !== 'lost') {
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
  const backup = await backUpFile(snapshot, machine.clock.now());
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
