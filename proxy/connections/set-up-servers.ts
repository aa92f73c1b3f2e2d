// The operation of `latchkey setup https://latchkey.example.com`, for front ends without a terminal.
import { TokenError } from '#auth/errors';
import { ConfigurationError, UsageError } from '#config/errors';
import type { ConnectedServer, SetUpServers } from './accounts-service.ts';
import { connectCompanyServers, connectServer } from './connect-server.ts';
import type { Connections, SignInOptions } from './connections.ts';
import { organizationOf } from './list-url.ts';
import type { MyServer, MyServers } from './my-servers.ts';

/**
 * Lets the person sign in and choose servers on one page, connects them, and installs the connections in all assistants.
 *
 * @throws {UsageError} if there is no list of servers at the URL
 */
export async function setUpServers(
  url: string,
  { choose = false, ...how }: SignInOptions & { choose?: boolean },
  connections: Connections,
): Promise<SetUpServers> {
  const list = await connections.serverList(url);
  if (list === undefined)
    throw new UsageError(
      `${url} is not the address of a Latchkey server`,
      'enter the address that your company gave you, without a path: https://latchkey.example.com',
    );
  const chosen = { ...how, choose, organization: organizationOf(url) };
  const { connected, signedInAs } = await findServers(list, chosen, connections);
  const names = connected.flatMap(({ name, problem }) => (problem === undefined ? [name] : []));
  return {
    url: new URL(list).origin,
    ...(signedInAs !== undefined && { signedInAs }),
    servers: connected,
    ...(await installAll(names, connections)),
  };
}

type Chosen = SignInOptions & { choose: boolean; organization: string | undefined };
type Found = { connected: readonly ConnectedServer[]; signedInAs?: string | undefined };

/**
 * Connects the servers of the stored sign-in, the servers that the company sign-in of this computer opens, or the servers that the person
 * now chooses on the page.
 */
async function findServers(
  list: string,
  { choose, organization, ...how }: Chosen,
  connections: Connections,
): Promise<Found> {
  const known = choose ? undefined : await knownServers(list, organization, connections);
  const company =
    choose || known ? undefined : await connections.companyServers(list, organization);
  const byCompany = company && (await connectCompanyServers(company, connections));
  if (company && byCompany) return { connected: byCompany, signedInAs: company.signedInAs };
  const page = { ...how, organization };
  const { servers, signedInAs } = known ?? (await connections.chooseServers(list, page));
  const connected: ConnectedServer[] = [];
  for (const server of servers.filter(({ isGranted }) => isGranted))
    connected.push(await connectServer(server, list, connections));
  return { connected, signedInAs };
}

/** The servers of the stored sign-in to a list, if the person chose any, in the organization if one is named. */
export async function knownServers(
  list: string,
  organization: string | undefined,
  connections: Connections,
): Promise<MyServers | undefined> {
  try {
    const known = await connections.myServers(list);
    const isWanted = (one: MyServer) =>
      one.isGranted && (organization === undefined || one.organization === organization);
    return known.servers.some(isWanted) ? known : undefined;
  } catch (error) {
    if (error instanceof TokenError && error.code === 'signed_out') return undefined;
    throw error;
  }
}

/** Installs the connections in all assistants of this computer. An entry that starts something else stays. */
async function installAll(
  names: readonly string[],
  connections: Connections,
): Promise<Pick<SetUpServers, 'restart' | 'problems'>> {
  const restart = new Set<string>();
  const problems: string[] = [];
  for (const { id, title, found, problem } of await connections.assistants()) {
    if (!found || names.length === 0) continue;
    if (problem !== undefined) {
      problems.push(`${title}: its file ${problem}`);
      continue;
    }
    for (const name of names) {
      try {
        const { changed } = await connections.install(id, name);
        if (changed) restart.add(title);
      } catch (error) {
        if (!(error instanceof UsageError || error instanceof ConfigurationError)) throw error;
        problems.push(error.message);
      }
    }
  }
  return { restart: [...restart], problems };
}
