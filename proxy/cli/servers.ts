import { TokenError } from '#auth/errors';
import { UsageError } from '#config/errors';
import type { AssistantView } from '#connections/accounts-service';
import type { Connections } from '#connections/connections';
import type { MyServer, MyServers } from '#connections/my-servers';
import type { Command } from './command.ts';
import { connectionsOf } from './command-host.ts';

/** `latchkey servers`. */
export const serversCommand: Command = {
  name: 'servers',
  operands: '[URL]',
  arity: [0, 1],
  summary: 'list the servers that you may use, and how you use them',
  about: `Asks each Latchkey server that latchkey setup connected, or the one at URL, which of its servers you may use: those in
use and by which assistants, those that need an account of yours, and those that you can add.`,
  flags: { json: { doc: 'print one JSON object: {"lists":[{"url":…,"servers":[…]}]}' } },
  options: ['secret-store', 'secret-store-key-file', 'state-dir', 'proxy', 'ca-file'],
  examples: ['latchkey servers', 'latchkey servers https://latchkey.example.com --json'],
  async run({ operands: [url], flags, options: given }, host) {
    const connections = connectionsOf(host, given);
    const lists =
      url === undefined ? await connections.serverLists() : [await listAt(url, connections)];
    const assistants = await connections.assistants();
    const shown: ShownList[] = [];
    for (const list of lists) shown.push(await shownList(list, assistants, connections));
    if (flags.has('json')) host.print(listsJson(shown));
    else for (const line of listLines(shown)) host.print(line);
    return shown.some(({ problem }) => problem !== undefined) ? 1 : 0;
  },
};

async function listAt(url: string, connections: Connections): Promise<string> {
  const list = await connections.serverList(url);
  if (list !== undefined) return list;
  throw new UsageError(
    `${url} has no list of servers`,
    'name a Latchkey server without a path, for example https://latchkey.example.com',
  );
}

/** `in_use`: an assistant starts its connection. `connected`: there is a connection. `available`: the person can choose it. */
type ShownServer = MyServer & {
  state: 'in_use' | 'connected' | 'available';
  connection?: string;
  assistants: readonly string[];
};

type ShownList = {
  url: string;
  signedInAs?: string | undefined;
  servers: readonly ShownServer[];
  /** Why there is no list. */
  problem?: string;
};

async function shownList(
  list: string,
  assistants: readonly AssistantView[],
  connections: Connections,
): Promise<ShownList> {
  const { origin } = new URL(list);
  let mine: MyServers;
  try {
    mine = await connections.myServers(list);
  } catch (error) {
    if (!(error instanceof TokenError && error.code === 'signed_out')) throw error;
    return { url: origin, servers: [], problem: error.message };
  }
  const servers: ShownServer[] = [];
  for (const server of mine.servers) {
    const connection = await connections.ownFor(server.url);
    const name = connection?.name;
    const starting = assistants.filter(({ starts }) => name !== undefined && starts.includes(name));
    const titles = starting.map(({ title }) => title);
    const state = titles.length > 0 ? 'in_use' : name === undefined ? 'available' : 'connected';
    servers.push({
      ...server,
      state,
      assistants: titles,
      ...(name !== undefined && { connection: name }),
    });
  }
  return { url: origin, signedInAs: mine.signedInAs, servers };
}

function listLines(lists: readonly ShownList[]): string[] {
  if (lists.length === 0)
    return ['no Latchkey server is known', 'hint: latchkey setup https://latchkey.example.com'];
  return lists.flatMap(({ url, signedInAs, servers, problem }) => {
    if (problem !== undefined) return [`${url}: ${problem}`, `  hint: latchkey setup ${url}`];
    const width = Math.max(0, ...servers.map(({ title }) => title.length));
    const who = signedInAs === undefined ? '' : `, signed in as ${signedInAs}`;
    const isMore = servers.some(({ state }) => state === 'available');
    return [
      `${url}${who}`,
      ...servers.flatMap((server) => {
        const { title, description, needsAccount, accountUrl = `${url}/dashboard` } = server;
        return [
          `  ${title.padEnd(width)}  ${stateWords(server)}`,
          ...(description === '' ? [] : [`  ${' '.repeat(width)}  ${description}`]),
          ...(needsAccount ? [`  ${' '.repeat(width)}  needs your account: ${accountUrl}`] : []),
        ];
      }),
      ...(isMore ? [`  hint: to add servers, run latchkey setup ${url} --choose`] : []),
    ];
  });
}

function stateWords({ state, connection = '', assistants }: ShownServer): string {
  switch (state) {
    case 'in_use':
      return `in use by ${assistants.join(', ')} (${connection})`;
    case 'connected':
      return `connected as ${connection}, in no assistant`;
    case 'available':
      return 'available';
  }
}

function listsJson(lists: readonly ShownList[]): string {
  return JSON.stringify({
    lists: lists.map(({ url, signedInAs, servers, problem }) => ({
      url,
      ...(signedInAs !== undefined && { signed_in_as: signedInAs }),
      ...(problem !== undefined && { problem }),
      servers: servers.map((server) => ({
        url: server.url,
        organization: server.organization,
        name: server.name,
        title: server.title,
        description: server.description,
        state: server.state,
        granted: server.isGranted,
        ...(server.scope !== undefined && { scope: server.scope }),
        ...(server.connection !== undefined && { connection: server.connection }),
        assistants: server.assistants,
        needs_account: server.needsAccount,
        ...(server.accountUrl !== undefined && { account_url: server.accountUrl }),
      })),
    })),
  });
}
