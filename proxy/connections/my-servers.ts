// The servers of a person at a Latchkey server: they are chosen from a list with one sign-in and one consent, and each becomes a connection
// that shares that sign-in.
import { isObject } from 'latchkey-mcp/json-value';
import { signsIn, type Account } from '#auth/account';
import { registeredClients } from '#auth/client-registration';
import { authorizationServer } from '#auth/discovery';
import { OAuthError, TokenError } from '#auth/errors';
import { fetchJson } from '#auth/fetch-json';
import { personGrant } from '#auth/grants';
import { listConnection, serverListUrl } from '#auth/server-list';
import { joinList, signInToList, type SharedSignInOptions } from '#auth/sign-in';
import { signOutConnection } from '#auth/sign-out';
import { isDue, isExpired } from '#auth/token-vault';
import type { Connection } from '#config/connection';
import { checkDocument } from '#config/find-entry';
import { keepServers, serverLists, serversOf } from '#config/server-lists';
import { registryFile } from '#config/user-files';
import type { Host } from '#host';
import { isWithin } from '#transport/web-url';
import type { BoundHost } from './connections-host.ts';
import { endpointOf } from './list-url.ts';
import { registeredConnections } from './registry.ts';

/** A server that the person may use. */
export type MyServer = {
  /** The URL of its MCP endpoint. */
  url: string;
  organization: string;
  organizationTitle: string;
  name: string;
  title: string;
  description: string;
  /** Whether the person chose it for this computer. */
  isGranted: boolean;
  scope?: string;
  /** The account or key that the person still has to connect at the MCP server behind it, and the page for that. */
  needs?: 'account' | 'key' | 'account or key';
  accountUrl?: string;
  /** The applications that use it for the person, on all their computers. */
  uses: readonly ServerUse[];
};

/** `assistant`: the application itself, if it named no assistant. `device`: absent if the application named none. */
export type ServerUse = { assistant: string; device?: { name: string; isCurrent: boolean } };

/** A server that the person cannot use, but may ask for on a page. */
export type AskableServer = {
  organization: string;
  name: string;
  title: string;
  description: string;
  askUrl: string;
  /** Their request, while it is open or if it was declined. */
  request?: { status: 'open' | 'declined'; answer: string };
};

export type MyServers = {
  list: string;
  /** The account that the person signed in with, if the server names it. */
  signedInAs?: string;
  servers: readonly MyServer[];
  askable: readonly AskableServer[];
  /** The URLs of servers that this computer knows and that the answer lists as withdrawn. Servers that it merely omits are not included. */
  withdrawn: readonly string[];
};

/** The list of servers at the origin of a URL; `undefined` if the server there has none. */
export async function findServerList(
  url: string,
  { http }: Pick<Host, 'http'>,
): Promise<string | undefined> {
  const { origin } = new URL(url);
  const list = serverListUrl(origin);
  const chosen = { issuer: origin, network: 'public' as const, chosen: true };
  const server = await authorizationServer(chosen, http).catch((error: unknown) => {
    // A server other than Latchkey may be there. A later request to it reports what is wrong.
    if (error instanceof OAuthError) return undefined;
    throw error;
  });
  return server?.protectedResources?.includes(list) ? list : undefined;
}

/**
 * The servers of the person, as their server lists them now.
 *
 * @throws {TokenError} `signed_out` if they have to sign in first
 */
export async function readServers(list: string, host: BoundHost): Promise<MyServers> {
  const known = (await serversOf(host.stateDirectory, list)) ?? [];
  const query = new URLSearchParams(
    known.map((one): [string, string] => ['known', one]),
  ).toString();
  const url = query === '' ? list : `${list}?${query}`;
  const { status, json } = await askList(list, { url, method: 'GET' }, host);
  if (status === 200 && isObject(json)) return parseServers(list, json, known);
  throw new OAuthError(
    status >= 500 || status === 429 ? 'unreachable' : 'refused',
    `${list} answered ${status}`,
    { endpoint: list, status },
  );
}

/**
 * Sends a request with the token of a list, which is renewed once if it is refused. Resolves to any other answer than 401.
 *
 * @throws {TokenError} `signed_out` if the person has to sign in first
 */
export async function askList(
  list: string,
  { url, method }: { url: string; method: 'GET' | 'DELETE' },
  host: BoundHost,
): Promise<{ status: number; json: unknown }> {
  const account = await host.account(listConnection(list));
  for (let refused: string | undefined; ;) {
    const token = await accessToken(account, refused);
    const { status, json } = await fetchJson(host.http, {
      url: new URL(url),
      method,
      headers: { accept: 'application/json', authorization: `Bearer ${token}` },
    });
    if (status !== 401) return { status, json };
    if (refused !== undefined) throw new TokenError('signed_out', `${list} refuses the sign-in`);
    refused = token;
  }
}

/** A token for the list itself, renewed if it is due or was `refused`. */
async function accessToken(account: Account, refused: string | undefined): Promise<string> {
  const { connection, vault, lock, clock, store } = account;
  const { url, credentials } = connection;
  if (credentials.kind !== 'authorization_code') throw new TypeError('no list of servers');
  const isGood = (record: { accessToken: string } & Parameters<typeof isDue>[0]) =>
    record.accessToken !== refused &&
    !isDue(record, clock.now()) &&
    !isExpired(record, clock.now());
  return lock.hold(vault.account, async () => {
    const previous = await vault.access();
    if (previous && isGood(previous)) return previous.accessToken;
    const ports = { ...account, clients: registeredClients(store) };
    const known = { ...(previous && { previous }), wider: false };
    const granted = await personGrant({ url, credentials }, known, ports);
    return (await vault.save(granted)).accessToken;
  });
}

/** Reads the answer. Ignores what it does not understand, and servers of another origin, which do not belong to this list. */
function parseServers(
  list: string,
  json: Readonly<Record<string, unknown>>,
  known: readonly string[],
): MyServers {
  const { signed_in_as: signedInAs, servers, askable, withdrawn } = json;
  const { origin } = new URL(list);
  return {
    list,
    ...(typeof signedInAs === 'string' && { signedInAs: signedInAs.slice(0, 200) }),
    askable: objects(askable).flatMap((one) => parseAskable(one, origin)),
    withdrawn: Array.isArray(withdrawn)
      ? known.filter((url) => isWithin(url, `${origin}/mcp`) && withdrawn.includes(url))
      : [],
    servers: objects(servers).flatMap((one): MyServer[] => {
      const url = text(one['resource']);
      if (!isWithin(url, `${origin}/mcp`)) return [];
      const { scope, account_url: accountUrl } = one;
      return [
        {
          url,
          organization: text(one['organization']),
          organizationTitle: text(one['organization_title']),
          name: text(one['name']),
          title: text(one['title']) || text(one['name']),
          description: text(one['description']),
          isGranted: one['granted'] === true,
          ...(typeof scope === 'string' && { scope }),
          ...(one['needs_account'] === true && { needs: neededOf(one['account_kind']) }),
          ...(typeof accountUrl === 'string' && isWithin(accountUrl, origin) && { accountUrl }),
          uses: objects(one['uses']).map(parseUse),
        },
      ];
    }),
  };
}

/** The kind of credential that is needed. An older server does not name it. */
function neededOf(kind: unknown): NonNullable<MyServer['needs']> {
  return kind === 'account' || kind === 'key' ? kind : 'account or key';
}

function objects(value: unknown): Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function parseUse({
  application,
  assistant,
  device,
}: Readonly<Record<string, unknown>>): ServerUse {
  return {
    assistant: text(assistant) || text(application),
    ...(isObject(device) && {
      device: { name: text(device['name']), isCurrent: device['current'] === true },
    }),
  };
}

function parseAskable(
  one: Readonly<Record<string, unknown>>,
  origin: string,
): readonly AskableServer[] {
  const [askUrl, name] = [text(one['ask_url']), text(one['name'])];
  if (!isWithin(askUrl, origin)) return [];
  const { status, answer } = isObject(one['request']) ? one['request'] : {};
  return [
    {
      organization: text(one['organization']),
      name,
      title: text(one['title']) || name,
      description: text(one['description']),
      askUrl,
      ...((status === 'open' || status === 'declined') && {
        request: { status, answer: text(answer) },
      }),
    },
  ];
}

/**
 * Lets the person choose servers in the browser, with those that they use now ticked. `ended` has the connections to servers that they
 * no longer chose, which are signed out.
 */
export async function chooseServers(
  list: string,
  how: SharedSignInOptions,
  host: BoundHost,
): Promise<MyServers & { ended: readonly string[] }> {
  const account = await host.account(listConnection(list));
  await signInToList(account, how);
  const chosen = await readServers(list, host);
  const granted = new Set(chosen.servers.filter((one) => one.isGranted).map(({ url }) => url));
  const ended: string[] = [];
  for (const url of await account.sharedServers(list)) {
    const sharing = await sharingConnections(url, list, host);
    for (const connection of sharing) {
      // Someone else may have signed in, who sees other tools.
      if (granted.has(url)) await joinServerList(connection, list, host);
      else await endShared(connection, host);
      if (!granted.has(url)) ended.push(connection.name);
    }
    if (sharing.length === 0 || !granted.has(url))
      await changeShared(list, host, (servers) => servers.filter((one) => one !== url));
  }
  return { ...chosen, ended };
}

async function endShared(connection: Connection, host: BoundHost): Promise<void> {
  if (!signsIn(connection)) return;
  const { vault, lock, clock, forgetCached } = await host.account(connection);
  await lock.hold(vault.account, async () => vault.leaveShared(clock.now()));
  await forgetCached();
}

/**
 * Lets a connection use the sign-in of the list that its server was chosen from.
 *
 * @throws {TokenError} `signed_out` if the person did not choose the server, or is not signed in
 */
export async function joinServerList(
  connection: Connection,
  list: string,
  host: BoundHost,
): Promise<void> {
  if (!signsIn(connection)) return;
  const record = await (await host.account(listConnection(list))).vault.access();
  if (!record) throw new TokenError('signed_out', `you are not signed in at ${list}`);
  const account = await host.account(connection);
  await joinList(account, list, record);
  await account.forgetCached();
  await changeShared(list, host, (servers) => [...servers, connection.url]);
  await host.notifyProxies(connection);
}

/**
 * The list to leave when a connection is removed: the one whose sign-in it shares or, if that has ended, the one that its server was chosen
 * from. `undefined` for a connection that only has the URL in common with one that was chosen.
 */
export async function listLeftWith(
  connection: Connection,
  host: BoundHost,
): Promise<string | undefined> {
  const shared = await sharedListOf(connection, host);
  if (shared !== undefined) return shared;
  for await (const { name, url } of registeredConnections(host))
    if (url === connection.url && name !== connection.name) return undefined;
  return storedListOf(connection.url, host);
}

/**
 * After a connection was signed out or removed: takes its server out of the list, unless another connection to the server shares that
 * sign-in. Signs out of a list without servers.
 */
export async function leaveServerList(
  { url }: Connection,
  list: string,
  host: BoundHost,
): Promise<void> {
  if ((await sharingConnections(url, list, host)).length > 0) return;
  const left = await changeShared(list, host, (servers) => servers.filter((one) => one !== url));
  if (left === undefined || left.length > 0) return;
  await signOutConnection(await host.account(listConnection(list)), { atProvider: false });
}

/** Stores that a server was chosen from a list, although its connection has a key or a sign-in of its own. */
export async function noteChosen(url: string, list: string, host: BoundHost): Promise<void> {
  await changeShared(list, host, (servers) => [...servers, url]);
}

/** Changes the stored servers of a list. Returns the new servers; `undefined` if the list was unknown and gets none. */
async function changeShared(
  list: string,
  host: BoundHost,
  change: (servers: readonly string[]) => readonly string[],
): Promise<readonly string[] | undefined> {
  const directory = host.stateDirectory;
  return host.exclusively('server lists', async () => {
    const before = await serversOf(directory, list);
    const servers = change(before ?? []);
    if (before === undefined && servers.length === 0) return undefined;
    await keepServers(directory, { list, servers });
    return servers;
  });
}

/** The lists that servers of this computer were chosen from. */
export async function knownLists(host: BoundHost): Promise<string[]> {
  const lists = await serverLists(host.stateDirectory);
  return lists.map(({ list }) => list);
}

/**
 * The addresses of the Latchkey servers that our own connections use, whether or not they were chosen from a list.
 *
 * @throws {ConfigurationError} if our own file cannot be read
 */
export async function latchkeyAddresses(host: BoundHost): Promise<readonly string[]> {
  const found = new Set<string>();
  await checkDocument(registryFile(host), (path) => host.readText(path));
  for await (const { url } of registeredConnections(host))
    if (endpointOf(url)) found.add(new URL(url).origin);
  return [...found];
}

/** The list that a server was chosen from on this computer, also if its sign-in has ended since. */
export async function storedListOf(url: string, host: BoundHost): Promise<string | undefined> {
  const lists = await serverLists(host.stateDirectory);
  return lists.find(({ servers }) => servers.includes(url))?.list;
}

/** Our own connections to a server that share the sign-in of a list. */
async function sharingConnections(
  url: string,
  list: string,
  host: BoundHost,
): Promise<Connection[]> {
  const sharing: Connection[] = [];
  for await (const connection of registeredConnections(host))
    if (connection.url === url && (await sharedListOf(connection, host)) === list)
      sharing.push(connection);
  return sharing;
}

/** The list whose sign-in the connection shares; `undefined` if it has a sign-in of its own, or none. */
async function sharedListOf(connection: Connection, host: BoundHost): Promise<string | undefined> {
  if (!signsIn(connection)) return undefined;
  return (await (await host.account(connection)).vault.access())?.renewedBy;
}
