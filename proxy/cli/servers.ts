import { TokenError } from '#auth/errors';
import { replaceCommand, setupCommand } from '#config/connection';
import { UsageError } from '#config/errors';
import type {
  AskableServer,
  MyServer,
  ServerListView,
  WithdrawnServer,
} from '#connections/accounts-service';
import type { Connections } from '#connections/connections';
import { serverListView, type ProblemOf } from '#connections/server-list-views';
import { withdrawnWords } from '#connections/withdrawn-servers';
import { UpstreamError } from '#transport/upstream';
import type { Command } from './command.ts';
import { connectionsOf } from './command-host.ts';

/** `latchkey servers`. */
export const serversCommand: Command = {
  name: 'servers',
  operands: '[URL]',
  summary: 'list the servers that you may use, and how you use them',
  about: `Asks each Latchkey server that latchkey setup connected, or the one at URL, which of its servers you may use: those in
use and by which assistants, here and on other computers, those that require a sign-in here, those that need your own account
or key, those that you can add, and those that you can ask for. A server that was withdrawn from you is removed from your
assistants; a backup of each file is kept.`,
  flags: { json: { doc: 'print one JSON object: {"lists":[{"url":…,"servers":[…]}]}' } },
  options: ['secret-store', 'secret-store-key-file', 'state-dir', 'proxy', 'ca-file'],
  examples: ['latchkey servers', 'latchkey servers https://latchkey.example.com --json'],
  async run({ operands: [url], flags, options: given }, host) {
    const connections = connectionsOf(host, given);
    const lists = await listsAt(url, connections);
    const assistants = await connections.assistants();
    const shown: ServerListView[] = [];
    const at = { assistants, problemOf: signedOut };
    for (const list of lists) shown.push(await serverListView(list, at, connections));
    if (flags.has('json')) host.print(listsJson(shown));
    else if (lists.length === 0) for (const line of await noLists(connections)) host.advise(line);
    else for (const line of listLines(shown)) host.advise(line);
    return shown.some(({ problem }) => problem !== undefined) ? 1 : 0;
  },
};

/**
 * The list of the Latchkey server at `url`; without `url`, all lists that are known on this computer.
 *
 * @throws {UsageError} if the server has no list; {@link UpstreamError} if it cannot be reached
 */
export async function listsAt(
  url: string | undefined,
  connections: Connections,
): Promise<readonly string[]> {
  if (url === undefined) return connections.serverLists();
  const list = await connections.serverList(url);
  if (list !== undefined) return [list];
  await connections.probe(url).catch((error: unknown) => {
    if (error instanceof UpstreamError && error.code === 'unreachable') throw error;
  });
  throw new UsageError(
    `${url} has no list of servers`,
    'name a Latchkey server without a path, for example https://latchkey.example.com',
  );
}

/** The message if the sign-in to a list is missing; `undefined` for any other error, which ends the command. */
export const signedOut: ProblemOf = (error) =>
  error instanceof TokenError && error.code === 'signed_out' ? error.message : undefined;

type ListedServer = ServerListView['servers'][number];

/** `in_use`: an assistant starts its connection. `connected`: there is a connection. `available`: the person can choose it. */
function stateOf({ connection, assistants }: ListedServer): 'in_use' | 'connected' | 'available' {
  if (assistants.length > 0) return 'in_use';
  return connection === undefined ? 'available' : 'connected';
}

/** The lines to print if no list is known. `setup` with the URL of one server does not sign in to the list. */
export async function noLists(connections: Connections): Promise<readonly string[]> {
  const addresses = await connections.addresses();
  if (addresses.length === 0)
    return ['no Latchkey server is known', 'hint: latchkey setup https://latchkey.example.com'];
  return [
    'you connected single servers, and no Latchkey server with its address alone',
    ...addresses.map((address) => `hint: to see all your servers, run ${setupCommand(address)}`),
  ];
}

function listLines(lists: readonly ServerListView[]): string[] {
  return lists.flatMap(({ url, signedInAs, servers, askable, withdrawn, problem }) => {
    if (problem !== undefined) return [`${url}: ${problem}`, `  hint: ${setupCommand(url)}`];
    const width = Math.max(0, ...[...servers, ...askable].map(({ title }) => title.length));
    const who = signedInAs === undefined ? '' : `, signed in as ${signedInAs}`;
    const isMore = servers.some((server) => stateOf(server) === 'available');
    return [
      `${url}${who}`,
      ...servers.flatMap((server) => {
        const { title, description, needs, accountUrl = `${url}/dashboard` } = server;
        return [
          `  ${title.padEnd(width)}  ${stateWords(server)}`,
          ...remedyOf(server).map((remedy) => `  ${' '.repeat(width)}  hint: ${remedy}`),
          ...(description === '' ? [] : [`  ${' '.repeat(width)}  ${description}`]),
          ...otherUses(server).map((use) => `  ${' '.repeat(width)}  ${use}`),
          ...(needs ? [`  ${' '.repeat(width)}  needs your own ${needs}: ${accountUrl}`] : []),
        ];
      }),
      ...askable.flatMap(({ title, askUrl, request }) => [
        `  ${title.padEnd(width)}  ${requestWords(request)}`,
        `  ${' '.repeat(width)}  ${request?.status === 'open' ? 'your request' : 'ask for access'}: ${askUrl}`,
      ]),
      ...withdrawn.flatMap(withdrawnLines),
      ...(isMore ? [`  hint: to add servers, run ${setupCommand(url)} --choose`] : []),
    ];
  });
}

/** The assistants that use the server on other computers. */
function otherUses({ uses }: MyServer): readonly string[] {
  const elsewhere = uses.filter(({ device }) => device && !device.isCurrent);
  const devices = Map.groupBy(elsewhere, ({ device }) => device?.name ?? '');
  return [...devices].map(
    ([device, of]) => `in use by ${of.map(({ assistant }) => assistant).join(', ')} on ${device}`,
  );
}

function requestWords(request: AskableServer['request']): string {
  if (request === undefined) return 'no access';
  return request.status === 'open' ? 'you asked for access' : `declined: ${request.answer}`;
}

function withdrawnLines(one: WithdrawnServer): string[] {
  return [
    `  ${withdrawnWords(one)}`,
    ...one.removed.map(({ backup }) => `    backup: ${backup}`),
    ...one.problems.map((problem) => `    ${problem}`),
    `    hint: to forget it, run latchkey remove ${one.name}`,
  ];
}

const requiredWords = { sign_in: 'sign-in required, ', key: 'API key required, ' };

function stateWords(server: ListedServer): string {
  const { connection = '', assistants, requires } = server;
  const required = requires === undefined ? '' : requiredWords[requires];
  switch (stateOf(server)) {
    case 'in_use':
      return `${required}in use by ${assistants.join(', ')} (${connection})`;
    case 'connected':
      return `${required}connected as ${connection}, in no assistant`;
    case 'available':
      return 'available';
  }
}

function remedyOf({ connection = '', requires, url }: ListedServer): readonly string[] {
  if (requires === undefined) return [];
  return [
    requires === 'key' ? replaceCommand({ name: connection, url }) : `latchkey login ${connection}`,
  ];
}

function listsJson(lists: readonly ServerListView[]): string {
  return JSON.stringify({
    lists: lists.map(({ url, signedInAs, servers, askable, withdrawn, problem }) => ({
      url,
      ...(signedInAs !== undefined && { signed_in_as: signedInAs }),
      ...(problem !== undefined && { problem }),
      servers: servers.map((server) => ({
        url: server.url,
        organization: server.organization,
        name: server.name,
        title: server.title,
        description: server.description,
        state: stateOf(server),
        granted: server.isGranted,
        ...(server.scope !== undefined && { scope: server.scope }),
        ...(server.connection !== undefined && { connection: server.connection }),
        assistants: server.assistants,
        ...(server.requires !== undefined && { requires: server.requires }),
        needs_account: server.needs !== undefined,
        ...(server.accountUrl !== undefined && { account_url: server.accountUrl }),
        uses: server.uses.map(({ assistant, device }) => ({
          assistant,
          ...(device && { device: device.name, current: device.isCurrent }),
        })),
      })),
      askable: askable.map(({ askUrl, ...one }) => ({ ...one, ask_url: askUrl })),
      withdrawn,
    })),
  });
}
