// The views of the person's servers for the command `servers` and the tray app.
import type { Connection } from '#config/connection';
import type { AssistantView, DeviceListView, ServerListView } from './accounts-service.ts';
import type { Connections } from './connections.ts';
import type { MyServers } from './my-servers.ts';

/** Returns the message for an error with which a list is still shown; `undefined` for any other error. */
export type ProblemOf = (error: unknown) => string | undefined;

/** The servers of each list that connections of this computer were chosen from. */
export async function serverListViews(
  connections: Connections,
  problemOf: ProblemOf,
): Promise<ServerListView[]> {
  const assistants = await connections.assistants();
  const views: ServerListView[] = [];
  for (const list of await connections.serverLists())
    views.push(await serverListView(list, { assistants, problemOf }, connections));
  return views;
}

/** The servers of a list. Those that are withdrawn are taken out of the files of assistants. */
export async function serverListView(
  list: string,
  { assistants, problemOf }: { assistants: readonly AssistantView[]; problemOf: ProblemOf },
  connections: Connections,
): Promise<ServerListView> {
  const { origin: url } = new URL(list);
  let mine: MyServers;
  try {
    mine = await connections.myServers(list);
  } catch (error) {
    const problem = problemOf(error);
    if (problem === undefined) throw error;
    return { list, url, problem, servers: [], askable: [], withdrawn: [] };
  }
  const withdrawn = await connections.takeOut(mine.withdrawn);
  const servers: ServerListView['servers'][number][] = [];
  for (const server of mine.servers) {
    const own = await connections.ownFor(server.url);
    const name = own?.name;
    const requires = own && (await requiredBy(own, server.isGranted, connections));
    const starting = assistants.filter(({ starts }) => name !== undefined && starts.includes(name));
    const titles = starting.map(({ title }) => title);
    const connection = name === undefined ? {} : { connection: name };
    servers.push({ ...server, ...connection, assistants: titles, ...(requires && { requires }) });
  }
  const { signedInAs, askable } = mine;
  return {
    list,
    url,
    ...(signedInAs !== undefined && { signedInAs }),
    servers,
    askable,
    withdrawn,
  };
}

/** The credential that a connection lacks on this computer, even while a proxy runs for it. */
async function requiredBy(
  connection: Connection,
  isGranted: boolean,
  connections: Connections,
): Promise<'sign_in' | 'key' | undefined> {
  if (!(await connections.hasSecrets(connection))) return 'key';
  return (await connections.isSignedIn(connection, isGranted)) ? undefined : 'sign_in';
}

/** The computers of the person at each of these lists. */
export async function deviceListViews(
  connections: Connections,
  problemOf: ProblemOf,
): Promise<DeviceListView[]> {
  const views: DeviceListView[] = [];
  for (const list of await connections.serverLists())
    views.push(await deviceListView(list, problemOf, connections));
  return views;
}

/** The devices of a list, or why they cannot be read. */
export async function deviceListView(
  list: string,
  problemOf: ProblemOf,
  connections: Connections,
): Promise<DeviceListView> {
  const { origin: url } = new URL(list);
  try {
    return { list, url, devices: await connections.devices(list) };
  } catch (error) {
    const problem = problemOf(error);
    if (problem === undefined) throw error;
    return { list, url, problem, devices: [] };
  }
}
