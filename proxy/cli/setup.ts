import { OAuthError, TokenError } from '#auth/errors';
import { assistantFile } from '#config/assistants';
import type { Connection } from '#config/connection';
import { UsageError } from '#config/errors';
import { readIdentityProvider } from '#config/identity-provider';
import type { AddInput } from '#connections/accounts-service';
import { isRejectedKey, keyProblem } from '#connections/connect-server';
import { Connections } from '#connections/connections';
import { endpointOf, organizationOf } from '#connections/list-url';
import type { Checked } from '#connections/connections-host';
import type { Described } from '#connections/new-connection';
import { checkStore } from '#keychain/secret-store';
import { UpstreamError } from '#transport/upstream';
import { refuseCommandName, secretFor } from './add.ts';
import {
  choose,
  chooseLaterLine,
  install,
  isChanged,
  lastLines,
  report,
  setupCommandFor,
  setupTerminal,
  type Run,
  type Written,
} from './choose-assistants.ts';
import type { Command, CommandInput } from './command.ts';
import type { CommandHost } from './command-host.ts';
import { checkCertificates, missingNetwork } from './inherited-network.ts';
import { restartLine } from './install.ts';
import { login } from './login.ts';
import { keptKeyNote, keyRemedy, noToolsHint, toolCount } from './setup-words.ts';

/** `latchkey setup URL`. */
export const setupCommand: Command = {
  name: 'setup',
  operands: 'URL',
  summary: 'connect your assistants to MCP servers in one step',
  about: `Signs you in or asks for an API key, adds the connection to your assistants (without a terminal, or with --yes, to all
that it finds), and lists the tools of the server to verify it. With the address of a whole Latchkey server, without a path or
with /mcp/ORGANIZATION, you choose its servers on one page. Run it again to repair it; latchkey remove NAME undoes it.`,
  flags: {
    name: { value: 'NAME', doc: 'the name of the connection (default: a name from the URL)' },
    assistant: {
      value: 'NAME',
      repeated: true,
      doc: 'install the connection only in this assistant; may be repeated',
    },
    'api-key': { doc: 'ask for an API key, or read it from standard input' },
    'client-id': {
      value: 'ID',
      doc: 'the ID of the OAuth client, if the server does not register one automatically',
    },
    'client-secret': { doc: 'ask for the secret of that client, or read it from standard input' },
    'identity-provider': {
      value: 'CLIENT_ID@ISSUER',
      doc: 'the identity provider of your company, for a server that accepts its sign-in',
    },
    choose: { doc: 'choose servers of a Latchkey server again, even if you are signed in' },
    yes: { doc: 'install in all assistants without asking' },
    json: { doc: 'print one JSON object; install in all assistants without asking' },
  },
  options: ['secret-store', 'secret-store-key-file', 'state-dir', 'proxy', 'ca-file'],
  examples: [
    'latchkey setup https://latchkey.example.com',
    'latchkey setup https://latchkey.example.com/mcp/acme/sales --yes --api-key <key.txt',
  ],
  signsInAgain: ({ operands: [url = 'URL'], flags }) => setupCommandFor(url, flags),
  async run(input, host, others) {
    for (const name of input.flags.get('name') ?? []) await refuseCommandName(name, others);
    return (await setup(input, host)) ? 0 : 1;
  },
};

/** A connection that Latchkey stores, and how it authenticates, as its check found. */
type Found = { connection: Connection; as: Checked['as']; isNew: boolean };

/** Runs `latchkey setup`. Resolves to `false` if an assistant was left out. */
async function setup(input: CommandInput, host: CommandHost): Promise<boolean> {
  const { operands, flags } = input;
  const [url = ''] = operands;
  const { config: _, ...options } = host.options(input.options);
  const json = flags.has('json');
  const print = (line: string) => (json ? host.warn(line) : host.print(line));
  const named = async (target: string) => host.connection(target, options);
  const connections = new Connections({ host, options, given: input.options, named });
  const run: Run = { flags, options, connections, host, print };
  // Refuses a wrong name before anything is done.
  for (const name of flags.get('assistant') ?? []) assistantFile(name, undefined, host);
  await checkCertificates(options, host);
  const list = await connections.serverList(url);
  if (list !== undefined) {
    const { setUpServers } = await import('./setup-servers.ts');
    return setUpServers({ list, organization: organizationOf(url) }, run);
  }
  if (flags.has('choose'))
    throw new UsageError(
      '--choose is for a whole Latchkey server',
      'name its URL without a path: latchkey setup https://latchkey.example.com --choose',
    );
  const found = await findOrAdd(url, run);
  const { name } = found.connection;
  const connection = await host.connection(name, options);
  const signIn = async () => signInTo({ ...found, connection }, run);
  const signedIn = found.as === 'person' && !(await run.connections.isSignedIn(connection));
  if (signedIn) await signIn();
  if (found.isNew) print(`added ${name}: ${url}`);
  const again = setupCommandFor(url, flags);
  const subject = { names: [name], added: found.isNew ? [name] : [], again };
  const chosen = await choose(subject, run);
  const written: Written[] = [];
  for (const id of chosen) written.push(await install(name, id, run));
  for (const one of written) report(one, name, run);
  const listed = host.listTools(connection, options).catch(async (error: unknown) => {
    if (signedIn || !(error instanceof TokenError && error.code === 'signed_out')) throw error;
    // The stored sign-in was ended at the server.
    await signIn();
    return host.listTools(connection, options);
  });
  const tools = await listed.catch((error: unknown) => {
    // The connection stays: the server may be down, or may need the person's own key first.
    warnRestart(written, host);
    throw error;
  });
  printResult(url, { found, signedIn, written, tools: tools.length }, run);
  if (written.length === 0) host.warn(chooseLaterLine(subject, run));
  for (const line of lastLines(options, host)) host.warn(line);
  return !written.some((one) => 'problem' in one);
}

function printResult(
  url: string,
  {
    found,
    signedIn,
    written,
    tools,
  }: { found: Found; signedIn: boolean; written: readonly Written[]; tools: number },
  { flags, options, print, host }: Run,
): void {
  const { name } = found.connection;
  if (!found.isNew && !signedIn && written.length > 0 && !written.some(isChanged))
    print(`${name} was already set up`);
  print(toolCount(name, tools));
  const noTools = tools === 0 && found.as === 'person' ? noToolsHint({ url }) : undefined;
  if (noTools !== undefined) host.warn(`hint: ${noTools}`);
  if (flags.has('json'))
    host.print(
      JSON.stringify({
        name,
        url,
        added: found.isNew,
        checked: { as: found.as },
        assistants: written.map(({ title: _title, note: _note, ...one }) => one),
        tools,
      }),
    );
  for (const { note } of written) if (note !== undefined) host.warn(`note: ${note}`);
  const missing = written.length > 0 ? missingNetwork([url], options, host) : [];
  for (const one of missing) host.warn(`note: ${one}`);
  warnRestart(written, host);
}

function warnRestart(written: readonly Written[], host: CommandHost): void {
  const restart = written.filter(isChanged).map(({ title }) => title);
  if (restart.length > 0) host.warn(restartLine(restart));
}

/**
 * Returns the existing connection to `url`, or adds one under a free name. Stores a secret that was missing or that was given.
 * Nothing else about an existing connection changes.
 */
async function findOrAdd(url: string, run: Run): Promise<Found> {
  const { flags, connections, host } = run;
  if (flags.has('api-key') && (flags.has('client-id') || flags.has('client-secret')))
    throw new UsageError('an API key and an OAuth client cannot be combined');
  if (flags.has('identity-provider') && (flags.has('api-key') || flags.has('client-secret')))
    throw new UsageError('an identity provider is for people: it needs no API key or secret');
  if (flags.has('client-secret') && !flags.has('client-id'))
    throw new UsageError('--client-secret requires --client-id');
  readIdentityProvider(flags.get('identity-provider')?.[0] ?? '', (problem) => {
    throw new UsageError(`--identity-provider ${problem}`);
  });
  const name = flags.get('name')?.[0];
  if (name !== undefined) await refuseOtherUrl(name, url, connections);
  const existing = await connections.ownFor(url, name);
  if (existing) {
    refuseOtherCredential(existing, flags);
    const given = flags.has('api-key') || flags.has('client-secret');
    if (!given && (await connections.hasSecrets(existing)))
      return { connection: existing, as: await checkKept(existing, run), isNew: false };
    const described = await withNewSecret(existing, host);
    return { connection: described.connection, as: await keep(described, true, run), isNew: false };
  }
  const free = name ?? (await connections.freeName(URL.canParse(url) ? url : ''));
  await connections.checkFree({ name: free, url });
  const described = await connections.describe(await describe(free, url, run));
  return { connection: described.connection, as: await keep(described, false, run), isNew: true };
}

/** Checks an existing connection. @throws {UpstreamError} with a remedy of its own, if the server rejects its API key */
async function checkKept(
  connection: Connection,
  { flags, connections, host }: Run,
): Promise<Checked['as']> {
  const { name, url, credentials } = connection;
  const again = setupCommandFor(url, flags);
  try {
    const { as } = await connections.check(connection, host.stop());
    if (credentials.kind === 'api_key' && endpointOf(url))
      host.warn(keptKeyNote(connection, again));
    return as;
  } catch (error) {
    if (!isRejectedKey(error, connection)) throw error;
    const remedy = keyRemedy(connection, 'rejected', again);
    throw new UpstreamError('unauthorized', keyProblem(name, 'rejected'), { cause: error, remedy });
  }
}

async function keep(
  described: Described,
  replace: boolean,
  { connections, host }: Run,
): Promise<Checked['as']> {
  const how = { replace, check: true, signal: host.stop() };
  return (await connections.add(described, how))?.as ?? null;
}

async function refuseOtherUrl(name: string, url: string, connections: Connections): Promise<void> {
  const before = await connections.own(name);
  if (before && before.url !== url)
    throw new UsageError(
      `${name} already exists, for ${before.url}`,
      'choose another name with --name',
    );
}

/** Refuses another way to authenticate, or another client, because either would make another connection. */
function refuseOtherCredential(existing: Connection, flags: CommandInput['flags']): void {
  const { credentials, name } = existing;
  const isKey = credentials.kind === 'api_key';
  const clientId = flags.get('client-id')?.[0];
  const isOther =
    (flags.has('api-key') && !isKey) ||
    (clientId !== undefined && (isKey || credentials.clientId !== clientId)) ||
    (flags.has('client-secret') && credentials.kind !== 'client_credentials') ||
    isOtherProvider(credentials, flags.get('identity-provider')?.[0]);
  if (isOther)
    throw new UsageError(
      `${name} already exists with another kind of authentication`,
      `add a second connection with --name, or run latchkey remove ${name} first`,
    );
}

function isOtherProvider(
  credentials: Connection['credentials'],
  given: string | undefined,
): boolean {
  if (given === undefined) return false;
  if (credentials.kind === 'api_key') return true;
  const { issuer = '', clientId = '' } = credentials.identityProvider ?? {};
  return given !== `${clientId}@${issuer}`;
}

async function withNewSecret(existing: Connection, host: CommandHost): Promise<Described> {
  const { credentials } = existing;
  if (credentials.kind === 'api_key') {
    const apiKeySecret = await secretFor('API key', 'LATCHKEY_API_KEY', host);
    const connection = { ...existing, credentials: { kind: credentials.kind, apiKeySecret } };
    return { connection, secrets: { apiKeySecret } };
  }
  const clientSecret = await secretFor('client secret', 'LATCHKEY_CLIENT_SECRET', host);
  const connection = { ...existing, credentials: { ...credentials, clientSecret } };
  return { connection, secrets: { clientSecret } };
}

/** Describes a new connection. It authenticates as the flags say, otherwise as the server requires. */
async function describe(
  name: string,
  url: string,
  { flags, options, connections, host }: Run,
): Promise<AddInput> {
  const at = { name, url };
  const apiKey = async (): Promise<AddInput> => ({
    ...at,
    as: 'api_key',
    apiKeySecret: await secretFor('API key', 'LATCHKEY_API_KEY', host),
  });
  if (flags.has('api-key')) return apiKey();
  const [clientId] = flags.get('client-id') ?? [];
  if (clientId !== undefined && flags.has('client-secret')) {
    const clientSecret = await secretFor('client secret', 'LATCHKEY_CLIENT_SECRET', host);
    return { ...at, as: 'client', clientId, clientSecret };
  }
  const probe = { name, signal: host.stop() };
  const { needs, needsClientId, serverName } = await connections.probe(url, probe);
  if (needs !== 'nothing') await checkStore(await host.store(options));
  if (needs === 'api_key' && clientId === undefined) {
    host.warn(`${serverName} requires an API key`);
    return apiKey();
  }
  if (needs === 'person' && needsClientId && clientId === undefined)
    throw new UsageError(
      `${serverName} does not register applications`,
      'ask its administrator for a client ID and add --client-id ID, or add --api-key',
    );
  const [identityProvider] = flags.get('identity-provider') ?? [];
  return {
    ...at,
    as: 'person',
    ...(clientId !== undefined && { clientId }),
    ...(identityProvider !== undefined && { identityProvider }),
  };
}

/** The error of a sign-in after which a new connection is removed; `undefined` if another attempt may succeed. */
function refusedWords(error: OAuthError, again: string): OAuthError | undefined {
  const { code, message, details } = error;
  if (code === 'no_access') return error;
  if (code !== 'declined' && code !== 'denied') return undefined;
  const remedy =
    code === 'declined'
      ? again
      : `check the URL, or ask the administrator of the server for access; ${again} tries again`;
  return new OAuthError(code, message, { ...details, remedy }, { cause: error });
}

async function signInTo({ connection, isNew }: Found, run: Run): Promise<void> {
  if (connection.credentials.kind === 'api_key') return;
  const { flags, connections, host, print } = run;
  const { name, url } = connection;
  const remedy = `run latchkey login ${name} in a terminal, or use --api-key`;
  const terminal = { ...host, print, ...setupTerminal(run, name, remedy) };
  try {
    await login(connection, connections, terminal, host.stop());
  } catch (error) {
    if (!isNew) throw error;
    const again = setupCommandFor(url, flags);
    const refused = error instanceof OAuthError ? refusedWords(error, again) : undefined;
    if (refused) {
      await connections.remove(name);
      throw refused;
    }
    host.warn(`${name} was added, but you are not signed in to it yet`);
    host.warn(`next: ${again} to continue, or latchkey remove ${name} to remove it`);
    throw error;
  }
}
