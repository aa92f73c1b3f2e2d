// `latchkey setup` with the address of a whole Latchkey server: one sign-in and one consent for all servers that the person chooses.
import { OAuthError, TokenError } from '#auth/errors';
import { listConnection } from '#auth/server-list';
import { ConfigurationError, UsageError } from '#config/errors';
import type { ConnectedServer } from '#connections/accounts-service';
import { connectCompanyServers, connectServer } from '#connections/connect-server';
import type { CompanyServers } from '#connections/company-servers';
import type { MyServers } from '#connections/my-servers';
import { knownServers } from '#connections/set-up-servers';
import { checkStore } from '#keychain/secret-store';
import { UpstreamError } from '#transport/upstream';
import {
  choose,
  chooseLaterLine,
  install,
  isChanged,
  lastLines,
  report,
  setupTerminal,
  type Run,
  type Written,
} from './choose-assistants.ts';
import { missingNetwork } from './inherited-network.ts';
import { restartLine } from './install.ts';
import { terminalPage } from './login.ts';
import { keptKeyNote, keyRemedy, noToolsHint, toolCount } from './setup-words.ts';

/** A chosen server. `problem` may also explain why its tools are unknown. */
type Connected = ConnectedServer & { tools?: number };

const forOneServer = ['name', 'api-key', 'client-id', 'client-secret', 'identity-provider'];

/** A list of servers, and the organization through whose provider the person wants to sign in. */
type Place = { list: string; organization: string | undefined };

/** The address that the person entered. */
function addressOf({ list, organization }: Place): string {
  const { origin } = new URL(list);
  return organization === undefined ? origin : `${origin}/mcp/${organization}`;
}

/** Connects the servers that the person chooses. Resolves to `false` if a server or an assistant was left out. */
export async function setUpServers(place: Place, run: Run): Promise<boolean> {
  const { list } = place;
  const { flags, options, host } = run;
  const origin = new URL(list).origin;
  host.about(listConnection(list));
  const wrong = forOneServer.find((flag) => flags.has(flag));
  if (wrong !== undefined)
    throw new UsageError(
      `--${wrong} is for one server, and ${origin} has several`,
      `use the URL of a server: latchkey setup ${origin}/mcp/ORGANIZATION/SERVER --${wrong}`,
    );
  await checkStore(await host.store(options));
  const { connected, signedInAs, available } = await findServers(place, run);
  const again = `latchkey setup ${addressOf(place)}`;
  for (const one of connected) await reportConnected(one, again, run);
  const ready = connected.filter(({ problem }) => problem === undefined);
  const names = ready.map(({ name }) => name);
  const added = ready.filter(({ isNew }) => isNew).map(({ name }) => name);
  const subject = { names, added, again };
  const assistants = names.length === 0 ? [] : await choose(subject, run);
  const written: (Written & { name: string })[] = [];
  for (const name of names)
    for (const id of assistants) written.push({ ...(await install(name, id, run)), name });
  for (const one of written) report(one, one.name, run);
  for (const one of ready) await countTools(one, run);
  printResult({ origin, connected, written, available, signedInAs }, run);
  if (written.length === 0 && names.length > 0) host.warn(chooseLaterLine(subject, run));
  for (const line of lastLines(options, host)) host.warn(line);
  const isWrong = (one: Connected) =>
    one.problem !== undefined && !(ready.includes(one) && one.server.needs);
  return !connected.some(isWrong) && !written.some((one) => 'problem' in one);
}

/** The connected servers. `available`: how many more servers the person may use, as far as is known. */
type Found = { connected: Connected[]; signedInAs: string | undefined; available: number };

/** Connects the servers of the stored sign-in, else the servers that the company sign-in opens, else those that the person chooses now. */
async function findServers({ list, organization }: Place, run: Run): Promise<Found> {
  const { flags, connections, print } = run;
  if (!flags.has('choose')) {
    const known = await knownServers(list, organization, connections);
    if (known) return listed(known, run);
    const company = await connections.companyServers(list, organization);
    const found = company && (await serversOfCompany(company, list, run));
    if (found) return found;
  }
  const chosen = await chooseServers({ list, organization }, run);
  const { signedInAs } = chosen;
  const { origin } = new URL(list);
  print(`signed in to ${origin}${signedInAs === undefined ? '' : ` as ${signedInAs}`}`);
  return listed(chosen, run);
}

/** Connects the servers that the person chose from a list. */
async function listed({ list, servers, signedInAs }: MyServers, run: Run): Promise<Found> {
  const granted = servers.filter(({ isGranted }) => isGranted);
  const connected: Connected[] = [];
  for (const server of granted) connected.push(await connectServer(server, list, run.connections));
  return { connected, signedInAs, available: servers.length - granted.length };
}

async function serversOfCompany(
  company: CompanyServers,
  list: string,
  { connections, host, print }: Run,
): Promise<Found | undefined> {
  const { issuer, signedInAs } = company;
  const connected = await connectCompanyServers(company, connections);
  if (!connected) {
    host.warn(
      `the company sign-in of ${issuer} opens no server here: sign in to the server itself`,
    );
    return undefined;
  }
  const who = signedInAs === undefined ? '' : ` as ${signedInAs}`;
  print(`signed in${who} by the company sign-in of ${issuer}`);
  host.warn(`to choose other servers: latchkey setup ${new URL(list).origin} --choose`);
  return { connected: [...connected], signedInAs, available: 0 };
}

async function chooseServers({ list, organization }: Place, run: Run): Promise<MyServers> {
  const { connections, host } = run;
  const { origin } = new URL(list);
  const remedy = `run latchkey setup ${origin} in a terminal`;
  const { openBrowser, ...words } = setupTerminal(run, origin, remedy);
  const show = terminalPage({ ...host, openBrowser });
  const how = { ...words, show, organization, signal: host.stop() };
  const chosen = await connections.chooseServers(list, how);
  for (const name of chosen.ended)
    host.warn(`${name} was not chosen, and is signed out: latchkey remove ${name} removes it`);
  return chosen;
}

async function reportConnected(
  { name, server, isNew, problem, keptKey }: Connected,
  again: string,
  { connections, host, print }: Run,
): Promise<void> {
  const { url } = server;
  if (problem !== undefined) host.warn(`latchkey: ${server.name} was not connected: ${problem}`);
  else if (isNew) print(`added ${name}: ${url}`);
  if (keptKey === 'in_use') host.warn(keptKeyNote({ name, url }, again));
  else if (keptKey) host.warn(`hint: ${keyRemedy({ name, url }, keptKey, again)}`);
  else if (problem !== undefined && (await connections.own(name)))
    host.warn(`hint: latchkey doctor ${name}`);
}

/** Counts the tools, which also proves that the connection works. A missing account of the person does not count as a failure. */
async function countTools(one: Connected, { host, options }: Run): Promise<void> {
  try {
    const connection = await host.connection(one.name, options);
    one.tools = (await host.listTools(connection, options)).length;
  } catch (error) {
    const isExpected = [UpstreamError, OAuthError, TokenError, ConfigurationError].some(
      (expected) => error instanceof expected,
    );
    if (!(error instanceof Error && isExpected)) throw error;
    one.problem = error.message;
    if (one.server.needs) return;
    host.warn(`latchkey: ${one.name}: ${error.message}`);
    host.warn(`hint: latchkey doctor ${one.name}`);
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
  { flags, options, print, host }: Run,
): void {
  for (const { name, tools, server, keptKey } of connected) {
    if (tools !== undefined) print(toolCount(name, tools));
    if (tools === 0 && !keptKey) host.warn(`hint: ${noToolsHint(server)}`);
    if (server.needs) {
      const { needs, accountUrl = `${origin}/dashboard` } = server;
      host.warn(`${name} needs your own ${needs}: ${accountUrl}`);
    }
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
          ...(server.needs && { needs_account: true, account_url: server.accountUrl }),
          ...(problem !== undefined && { problem }),
        })),
        assistants: written.map(({ title: _title, note: _note, ...one }) => one),
      }),
    );
  const notes = new Set(written.flatMap(({ note }) => (note === undefined ? [] : [note])));
  const urls = connected.map(({ server }) => server.url);
  const missing = written.length > 0 ? missingNetwork(urls, options, host) : [];
  for (const note of [...notes, ...missing]) host.warn(`note: ${note}`);
  const restart = new Set(written.filter(isChanged).map(({ title }) => title));
  if (restart.size > 0) host.warn(restartLine([...restart]));
  if (available > 0)
    host.warn(
      `${available === 1 ? '1 more server is' : `${available} more servers are`} available: latchkey setup ${origin} --choose`,
    );
}
