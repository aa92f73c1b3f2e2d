import { readdir } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { AssistantView } from '#auth/accounts-door';
import type { OwnMachine } from '#auth/own-machine';
import { assistants, type Assistant } from './assistants.ts';
import { launchedNames } from './launched-names.ts';

/** The assistants of this machine, also those that are not there. */
export async function assistantViews(machine: OwnMachine): Promise<AssistantView[]> {
  return Promise.all(
    Object.entries(assistants).map(async ([id, assistant]) => viewOf(id, assistant, machine)),
  );
}

async function viewOf(
  id: string,
  { title, file: fileOf, servers }: Assistant,
  machine: OwnMachine,
): Promise<AssistantView> {
  const file = fileOf(machine);
  const folder = dirname(file);
  const beside = await readdir(folder).catch(() => undefined);
  // A file in the home directory says nothing by its folder.
  const found =
    beside !== undefined && (folder !== machine.home || beside.includes(basename(file)));
  const backups = (beside ?? [])
    .filter((name) => name.startsWith(`${basename(file)}.`) && name.endsWith('.backup'))
    .sort();
  const { names, problem } = await launchedNames(file, servers, machine);
  return {
    id,
    title,
    file,
    found,
    ...(problem !== undefined && { problem }),
    starts: names,
    backups: backups.map((name) => file.slice(0, -basename(file).length) + name),
  };
}
