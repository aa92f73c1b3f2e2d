import { readdir } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { AssistantView } from '#auth/accounts-service';
import type { AccountsHost } from '#auth/accounts-host';
import { assistants, type Assistant } from './assistants.ts';
import { launchedNames } from './launched-names.ts';

/** The assistants of this machine, also those that are not there. */
export async function assistantViews(host: AccountsHost): Promise<AssistantView[]> {
  return Promise.all(
    Object.entries(assistants).map(async ([id, assistant]) => viewOf(id, assistant, host)),
  );
}

async function viewOf(
  id: string,
  { title, file: fileOf, servers }: Assistant,
  host: AccountsHost,
): Promise<AssistantView> {
  const file = fileOf(host);
  const folder = dirname(file);
  const beside = await readdir(folder).catch(() => undefined);
  // A file in the home directory says nothing by its folder.
  const found = beside !== undefined && (folder !== host.home || beside.includes(basename(file)));
  const backups = (beside ?? [])
    .filter((name) => name.startsWith(`${basename(file)}.`) && name.endsWith('.backup'))
    .sort();
  const { names, problem } = await launchedNames(file, servers, host);
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
