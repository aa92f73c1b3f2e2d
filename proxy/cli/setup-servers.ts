// `latchkey setup` with the address of a whole Latchkey server: one sign-in and one consent for all servers that the person chooses.
import { OAuthError, TokenError } from '#auth/errors';
import { assistantNamed } from '#config/assistants';
import type { Connection } from '#config/connection';
import { UsageError } from '#config/errors';
import type { MyServer, MyServers } from '#connections/my-servers';
import { checkStore } from '#keychain/secret-store';
import { UpstreamError } from '#transport/upstream';
import {
  asksForAssistants,
  choose,
  install,
  isChanged,
  report,
  type Run,
  type Written,
} from './choose-assistants.ts';
import { restartLine } from './install.ts';
import { terminalPage } from './login.ts';

/** A chosen server, and what became of its connection. */
type Connected = {
  name: string;
  server: MyServer;
  isNew: boolean;
  /** How many tools it has; `undefined` if `problem` says why that is unknown. */
  tools?: number;
  problem?: string;
};

const forOneServer = ['name', 'api-key', 'client-id', 'client-secret', 'identity-provider'];

/** Connects the servers that the person chooses: `false` when a server or an assistant was left out. */
export async function setUpServers(list: string, run: Run): Promise<boolean> {
  const { flags, options, host, print } = run;
  const origin = new URL(list).origin;
  const wrong = forOneServer.find((flag) => flags.has(flag));
  if (wrong !== undefined)
    throw new UsageError(
      `--${wrong} is for one server, and ${origin} has several`,
      `use the URL of a server: latchkey setup ${origin}/mcp/ORGANIZATION/SERVER --${wrong}`,
    );
  await checkStore(await host.store(options));
  const { servers, signedInAs, isNewSignIn } = await chosenServers(list, run);
  const granted = servers.filter(({ isGranted }) => isGranted);
  if (isNewSignIn)
    print(`signed in to ${origin}${signedInAs === undefined ? '' : ` as ${signedInAs}`}`);
  const connected: Connected[] = [];
  for (const server of granted) connected.push(await connect(server, list, run));
  const ready = connected.filter(({ problem }) => problem === undefined);
  const names = ready.map(({ name }) => name);
  const assistants = names.length === 0 ? [] : await choose(names, run);
  const written: (Written & { name: string })[] = [];
  for (const name of names)
    for (const id of assistants) written.push({ ...(await install(name, id, run)), name });
  for (const one of written) report(one, one.name, run);
  for (const one of ready) await countTools(one, run);
  const available = servers.length - granted.length;
  printResult({ origin, connected, written, available, signedInAs }, run);
  const isLeftOut = connected.some(
    ({ problem, server }) => problem !== undefined && !server.needsAccount,
  );
  return !isLeftOut && !written.some((one) => 'problem' in one);
}

/** The servers of the person: those of the stored sign-in, or those that they choose on the page now. */
async function chosenServers(
  list: string,
  run: Run,
): Promise<MyServers & { isNewSignIn: boolean }> {
  const { flags, connections, host } = run;
  if (!flags.has('choose')) {
    try {
      const known = await connections.myServers(list);
      if (known.servers.some(({ isGranted }) => isGranted)) return { ...known, isNewSignIn: false };
    } catch (error) {
      if (!(error instanceof TokenError && error.code === 'signed_out')) throw error;
    }
  }
  const [only = '', ...others] = flags.get('assistant') ?? [];
  const chosen = await connections.chooseServers(list, {
    show: terminalPage({ ...host, openBrowser: async (page) => openPage(page, list, run) }),
    assistant: others.length === 0 ? assistantNamed(only)?.title : undefined,
    next: asksForAssistants(flags, host)
      ? 'Go back to the terminal to choose your assistants.'
      : 'Go back to the terminal.',
    signal: host.stop(),
  });
  for (const name of chosen.ended)
    host.warn(`${name} was not chosen, and is signed out: latchkey remove ${name} removes it`);
  return { ...chosen, isNewSignIn: true };
}

async function openPage(page: URL, list: string, { flags, host }: Run): Promise<boolean> {
  const isOpen = await host.openBrowser(page);
  if (isOpen || host.interactive || !flags.has('yes')) return isOpen;
  const { origin } = new URL(list);
  throw new UsageError(
    `${origin} requires a sign-in, but there is neither a browser nor a terminal here`,
    `run latchkey setup ${origin} in a terminal`,
  );
}

/** The connection to a server: the one there is, or a new one that shares the sign-in. */
async function connect(
  server: MyServer,
  list: string,
  { connections, host, print, options }: Run,
): Promise<Connected> {
  const { url } = server;
  const existing = await connections.ownFor(url);
  // A key or a sign-in of its own goes on.
  if (existing && (await hasCredential(existing, connections)))
    return { name: existing.name, server, isNew: false };
  const name = existing?.name ?? (await connections.freeName(url));
  if (!existing) {
    const described = await connections.describe({ name, url, as: 'person' });
    await connections.add(described, { replace: false, check: false });
  }
  try {
    await connections.joinServerList(await host.connection(name, options), list);
  } catch (error) {
    if (!(error instanceof TokenError || error instanceof OAuthError)) throw error;
    if (error instanceof OAuthError && error.code === 'unreachable') throw error;
    host.warn(`latchkey: ${name} was not connected: ${error.message}`);
    return { name, server, isNew: !existing, problem: error.message };
  }
  if (!existing) print(`added ${name}: ${url}`);
  return { name, server, isNew: !existing };
}

async function hasCredential(
  connection: Connection,
  connections: Run['connections'],
): Promise<boolean> {
  if (connection.credentials.kind !== 'authorization_code')
    return connections.hasSecrets(connection);
  return connections.isSignedIn(connection);
}

/** Counts the tools, which also proves that the connection works. A missing account at the server behind it is no failure of it. */
async function countTools(one: Connected, { host, options }: Run): Promise<void> {
  try {
    const connection = await host.connection(one.name, options);
    one.tools = (await host.listTools(connection, options)).length;
  } catch (error) {
    const isExpected =
      error instanceof UpstreamError || error instanceof OAuthError || error instanceof TokenError;
    if (!isExpected) throw error;
    one.problem = error.message;
    if (!one.server.needsAccount) host.warn(`latchkey: ${one.name}: ${error.message}`);
  }
}

function printResult(
  {
    origin,
    connected,
    written,
    available,
    signedInAs,
  }: {
    origin: string;
    connected: readonly Connected[];
    written: readonly (Written & { name: string })[];
    available: number;
    signedInAs: string | undefined;
  },
  { flags, print, host }: Run,
): void {
  for (const { name, tools, server } of connected) {
    if (tools !== undefined) print(`${name}: ${tools === 1 ? '1 tool' : `${tools} tools`}`);
    if (server.needsAccount)
      host.warn(`${name} needs your own account: ${server.accountUrl ?? `${origin}/dashboard`}`);
  }
  if (flags.has('json'))
    host.print(
      JSON.stringify({
        url: origin,
        ...(signedInAs !== undefined && { signed_in_as: signedInAs }),
        servers: connected.map(({ name, server, isNew, tools, problem }) => ({
          name,
          url: server.url,
          added: isNew,
          ...(tools !== undefined && { tools }),
          ...(server.needsAccount && { needs_account: true, account_url: server.accountUrl }),
          ...(problem !== undefined && { problem }),
        })),
        assistants: written.map(({ title: _title, note: _note, ...one }) => one),
      }),
    );
  const notes = new Set(written.flatMap(({ note }) => (note === undefined ? [] : [note])));
  for (const note of notes) host.warn(`note: ${note}`);
  const restart = new Set(written.filter(isChanged).map(({ title }) => title));
  if (restart.size > 0) host.warn(restartLine([...restart]));
  const [first] = connected;
  if (written.length === 0 && first) host.warn(`next: latchkey install ASSISTANT ${first.name}`);
  if (available > 0)
    host.warn(
      `${available === 1 ? '1 more server is' : `${available} more servers are`} available: latchkey setup ${origin} --choose`,
    );
}
