// The servers that were chosen from each list, in a file of the state directory, without secrets. The next sign-in requests the same
// servers, and the keychain does not store them.
import { mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isObject, parseObject } from 'latchkey-mcp/json-value';
import { writeAtomically } from '#atomic-file';

/** A list of servers, and the URLs of those that were chosen from it. */
export type ServerList = { list: string; servers: readonly string[] };

/** The maximum number of servers in one sign-in. */
const maxServers = 50;
const maxLists = 20;

function fileOf(stateDirectory: string): string {
  return join(stateDirectory, 'server-lists.json');
}

/** All lists, the newest first. A file that is missing or that another program wrote contains none. */
export async function serverLists(stateDirectory: string): Promise<ServerList[]> {
  const text = await readFile(fileOf(stateDirectory), 'utf8').catch(() => undefined);
  const { lists } = parseObject(text) ?? {};
  if (!Array.isArray(lists)) return [];
  return lists.filter(isObject).flatMap(({ list, servers }) => {
    if (typeof list !== 'string' || !URL.canParse(list) || !Array.isArray(servers)) return [];
    return [{ list, servers: servers.filter((one) => typeof one === 'string') }];
  });
}

/** The servers of a list; `undefined` for one that is unknown. */
export async function serversOf(
  stateDirectory: string,
  list: string,
): Promise<readonly string[] | undefined> {
  const known = await serverLists(stateDirectory);
  return known.find((one) => one.list === list)?.servers;
}

/** Stores the servers of a list; without any, the list is forgotten. The caller holds the lock of the list. */
export async function keepServers(
  stateDirectory: string,
  { list, servers }: ServerList,
): Promise<void> {
  const others = (await serverLists(stateDirectory)).filter((one) => one.list !== list);
  const kept = [...new Set(servers)].slice(0, maxServers);
  const lists = [...(kept.length > 0 ? [{ list, servers: kept }] : []), ...others];
  const file = fileOf(stateDirectory);
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await writeAtomically(
    file,
    `${JSON.stringify({ lists: lists.slice(0, maxLists) }, undefined, 2)}\n`,
  );
}
