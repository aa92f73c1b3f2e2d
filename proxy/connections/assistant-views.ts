import { readdir } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { FilesHost } from '#host';
import type { AssistantView } from './accounts-service.ts';
import { assistants, type Assistant } from '#config/assistants';
import { findDocuments } from '#config/find-entry';
import { parseFile } from '#config/edit-file';
import { notValid } from '#config/errors';
import { entriesIn, isLaunch, launchedName } from '#config/launch-entry';

/** All supported assistants, whether or not they are on this computer. */
export async function assistantViews(host: FilesHost): Promise<AssistantView[]> {
  return Promise.all(
    Object.entries(assistants).map(async ([id, assistant]) => viewOf(id, assistant, host)),
  );
}

async function viewOf(
  id: string,
  { title, file: fileOf, servers }: Assistant,
  host: FilesHost,
): Promise<AssistantView> {
  const file = fileOf(host);
  const folder = dirname(file);
  const beside = await readdir(folder).catch(() => undefined);
  // The home directory exists in any case, so there the file itself has to exist.
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

/** The connections that the entries of a file start, by their names in Latchkey; `problem` if it cannot be read. */
async function launchedNames(
  file: string,
  servers: string,
  host: FilesHost,
): Promise<{ names: string[]; problem?: string }> {
  try {
    const text = host.readText(file);
    if (text === undefined || text.trim() === '') return { names: [] };
    const entries = entriesIn(await parseFile(text, file), servers);
    const ours = entries.filter(({ entry }) => isLaunch(entry));
    return { names: ours.map(({ key, entry }) => launchedName(entry) ?? key) };
  } catch (error) {
    // The parser's message quotes the text, which may contain a secret.
    const unread = error instanceof Error && 'code' in error ? String(error.code) : undefined;
    return { names: [], problem: unread ? `cannot be read (${unread})` : notValid(file) };
  }
}

/** The assistants whose own files start the connection, by the names that commands accept. */
export async function startingAssistants(name: string, host: FilesHost): Promise<string[]> {
  const found: string[] = [];
  for (const [assistant, { file, servers }] of Object.entries(assistants)) {
    const documents = await findDocuments([file(host)], (path) => host.readText(path));
    const entries = documents.flatMap((document) => entriesIn(document, servers));
    if (entries.some(({ entry }) => isLaunch(entry, name))) found.push(assistant);
  }
  return found;
}
