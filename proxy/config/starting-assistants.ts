import type { AccountsHost } from '#auth/accounts-host';
import { assistants } from './assistants.ts';
import { findDocuments } from './find-entry.ts';
import { isLaunch } from './launch-entry.ts';

/** The assistants whose own files start the connection, by the names that commands take. */
export async function startingAssistants(name: string, host: AccountsHost): Promise<string[]> {
  const found: string[] = [];
  for (const [assistant, { file, servers }] of Object.entries(assistants)) {
    const documents = await findDocuments([file(host)], (path) => host.readText(path));
    const entries = documents.flatMap((document) => Object.values(membersOf(document, servers)));
    if (entries.some((entry) => isLaunch(entry, name))) found.push(assistant);
  }
  return found;
}

function membersOf(document: unknown, name: string): object {
  const members = typeof document === 'object' && document !== null ? document : {};
  const found: unknown = Object.entries(members).find(([key]) => key === name)?.[1];
  return typeof found === 'object' && found !== null ? found : {};
}
