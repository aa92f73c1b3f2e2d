import { endpointBase, json, masterKeyFile } from '#config/option';
import { fewNames } from '#model/few-names';
import { shellWord } from '#model/shell-word';
import { type Option } from '#model/option';
import type { Input } from '#config/read-options';
import { CommandError, UsageError } from '#config/usage-error';
import { bytesOfSize, sizeOfBytes } from '#model/byte-size';
import { limitBounds, limitNames, type ServerLimits } from '#model/server-limits';
import { listedSettings, offeredKinds, settingColumns } from '#model/upstream-kinds';
import { requireAgent } from './agents.ts';
import {
  administer,
  command,
  type Command,
  type CommandPorts,
  listCommand,
  optionName,
} from './command.ts';
import {
  type Given,
  type Ports,
  type Stores,
  findListed,
  namedOrganization,
  namedServer,
  placeOf,
  type Positional,
  serverArgument,
  splitPath,
} from './positionals.ts';
import { deploymentRead, installedForWhom } from './deployment.ts';
import { printMade } from './print.ts';
import { httpHeaderFile, readHeaders } from './read-headers.ts';
import {
  serverCreate,
  serverDelete,
  serverDisable,
  serverEnable,
  serverList,
  serverRead,
  serverUpdate,
  type ServerView,
} from './servers.ts';
import { findUnlisted, unlistedHint } from './unlisted-names.ts';
import { type GivenHeader, headerList } from './upstream-headers.ts';
import { wireName } from './wire-names.ts';
import { checkBaseUrl } from '#config/base-url';

const chosenKinds = offeredKinds.filter(({ chosenBy }) => chosenBy === undefined);

const upstreamOptions: readonly Option[] = chosenKinds.flatMap(({ options }) => options);
/** `--http-url URL`, `--agent NAME`, `--demo` */
const upstreamChoices = chosenKinds.map(({ options }) => options.map(synopsis).join(' '));

/** Whether any option that chooses an upstream was given. */
function isUpstreamGiven(input: Input): boolean {
  return upstreamOptions.some((option) => isGiven(option, input));
}

/**
 * Reads the upstream of a server from options.
 *
 * @throws {UsageError} unless exactly one upstream is given, and it is valid
 * @throws {CommandError} when there is no such agent
 */
async function readUpstream(
  input: Input,
  organization: string,
  stores: Stores,
): Promise<{ kind: string }> {
  const given = chosenKinds.filter(({ options }) => options.some((one) => isGiven(one, input)));
  const [chosen] = given;
  if (!chosen || given.length > 1) {
    throw new UsageError(`give ${chosen ? 'only ' : ''}one of ${upstreamChoices.join(', ')}`);
  }
  const settings: Record<string, string> = {};
  for (const { name, option, control, problemOf } of chosen.settings) {
    const text = input.text(option.name);
    if (text === undefined) continue;
    const problem = problemOf(text);
    // The forbidden part of the text is not repeated, because it may be a password.
    if (problem?.startsWith('may')) throw new UsageError(`--${option.name} ${problem}`);
    if (problem !== undefined) throw new UsageError(`--${option.name} '${text}' ${problem}`);
    if (control === 'agent') await requireAgent({ organization, name: text }, stores);
    settings[name] = text;
  }
  return { kind: chosen.kind, ...settings };
}

function synopsis({ name, value }: Option): string {
  return value === undefined ? `--${name}` : `--${name} ${value}`;
}

function isGiven({ name, value }: Option, input: Input): boolean {
  return value === undefined ? input.flag(name) : input.text(name) !== undefined;
}

const path = [serverArgument.usage];
const words: readonly Option[] = [
  { name: 'title', value: 'TITLE', doc: 'the name that people see' },
  { name: 'description', value: 'TEXT', doc: 'a description' },
  { name: 'instructions', value: 'TEXT', doc: 'instructions for assistants' },
];

const changedTools: Option = {
  name: 'changed-tools',
  value: 'flag|withhold',
  doc: 'what happens to a tool whose definition changed: reported, or blocked until accepted',
};

const newTools: Option = {
  name: 'new-tools',
  value: 'offer|review',
  doc: 'what happens to a tool that is listed for the first time: offered immediately, or blocked until accepted',
};

const reviewTools: Option = {
  name: 'review-tools',
  doc: 'offer nothing of the server until it is approved: tool accept ORG/SERVER --all',
};

export const serverCreateCommand: Command = {
  words: 'server create',
  positionals: path,
  options: [...upstreamOptions, reviewTools, httpHeaderFile, masterKeyFile, endpointBase, json],
  doc: `create a server: an MCP endpoint and its upstream, which is exactly one of ${upstreamChoices.join(', ')}`,
  async run(input, { out, ...ports }) {
    const { organization, name } = splitPath(input.positionals[0] ?? '', 'sales');
    const given = input.text('base-url');
    const base = given === undefined ? undefined : checkBaseUrl(given);
    await namedOrganization(organization, ports.stores);
    const headers = headersBeside(input);
    const upstream = { ...(await readUpstream(input, organization, ports.stores)), ...headers };
    const review = input.flag('review-tools') && { newTools: 'review', changedTools: 'withhold' };
    const created = { organization, name, upstream, ...review };
    const taken = `choose another name, or change this server: latchkey-server server update ${organization}/${name}`;
    const { id } = await administer(serverCreate, created, ports, () => taken);
    const endpoint = `${base ?? ''}/mcp/${organization}/${name}`;
    const facts = { id, name: `${organization}/${name}`, upstream: upstream.kind, endpoint };
    printMade(facts, { json: input.flag('json'), out });
    if (base === undefined && !input.flag('json')) {
      out('hint: for the whole URL, set the public URL of the server with --base-url');
    }
    const tried = { server: facts.name, url: input.text('http-url'), ...headers };
    if (!input.flag('json')) await hintAtFailedTest(tried, { ...ports, out });
  },
};

/** Prints a hint if the server at the given URL does not answer like an MCP server. */
async function hintAtFailedTest(
  {
    server,
    url,
    headers = [],
  }: {
    readonly server: string;
    readonly url: string | undefined;
    readonly headers?: readonly GivenHeader[];
  },
  { out, tryUrl }: Pick<CommandPorts, 'out' | 'tryUrl'>,
): Promise<void> {
  if (url === undefined) return;
  const sent = headers.map(({ name, value }) => [name.toLowerCase(), value] as const);
  const reason = await tryUrl(url, Object.fromEntries(sent));
  if (reason === undefined) return;
  const uncapitalized = `${reason.charAt(0).toLowerCase()}${reason.slice(1)}`;
  out(`hint: the MCP server did not pass a test: ${uncapitalized.replace(/\.$/, '')}`);
  out('      check the MCP server, or change its URL:');
  out(`      latchkey-server server update ${server} --http-url URL`);
}

/** The organization in `ORG` or `ORG/SERVER`. */
const listedOrganization: Positional = {
  usage: 'ORG',
  async read(text, { stores }) {
    const { organization } = await findListed(text, stores);
    return { organization };
  },
};

/** The path that names a server in commands: `ORG/SERVER`. */
const pathOf = ({ name }: { readonly name: string }, { given }: { readonly given: Given }) =>
  `${String(given['organization'])}/${name}`;

export const serverListCommand = listCommand(serverList, {
  words: 'server list',
  positionals: [listedOrganization],
  doc: 'list servers and their upstreams',
  prints: [
    'id',
    { name: pathOf },
    'title',
    { upstream: ({ upstream }) => upstream.kind },
    ...settingColumns.map((column) => ({
      [column]: ({ upstream }: ServerView) => listedSettings(upstream)[column],
    })),
    'hiddenTools',
    'withheldTools',
    'createdAt',
    'disabledAt',
  ],
  empty: 'no servers yet: latchkey-server server create ORG/SERVER --http-url URL',
});

export const serverUpdateCommand: Command = {
  words: 'server update',
  positionals: path,
  options: [
    ...words,
    changedTools,
    newTools,
    ...upstreamOptions,
    httpHeaderFile,
    masterKeyFile,
    json,
  ],
  doc: 'change a server; changes take effect on the next call, and omitted options keep their value',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const chosen = words.map(({ name }) => [name, input.text(name)] as const);
    const given = Object.fromEntries(chosen.filter(([, text]) => text !== undefined));
    const headers = headersBeside(input);
    const upstream = isUpstreamGiven(input)
      ? { ...(await readUpstream(input, at.organization, ports.stores)), ...headers }
      : undefined;
    const changed = await administer(
      serverUpdate,
      {
        ...at,
        ...given,
        changedTools: input.text('changed-tools') || undefined,
        newTools: input.text('new-tools') || undefined,
        upstream,
      },
      ports,
    );
    const { title, description, instructions } = changed;
    const facts = { name: `${at.organization}/${at.server}`, title, description, instructions };
    const { removedHeaders: removed } = changed;
    const shown = { id: changed.id, ...facts, upstream: changed.upstream.kind };
    printMade({ ...shown, removed_headers: removed }, { json: input.flag('json'), out });
    if (removed.length > 0 && !input.flag('json')) {
      const names = removed.map((name) => `--http-header-file ${shellWord(name)}=FILE`).join(' ');
      out('hint: the removed headers were for another origin; to set them again:');
      out(`      latchkey-server server set-header ${facts.name} ${names}`);
    }
    // The values of headers that the server keeps are encrypted, and without them the test of a working server could fail.
    const { items } = await administer(headerList, at, ports);
    const isComplete = items.length === (headers.headers?.length ?? 0);
    const tried = { server: facts.name, url: input.text('http-url'), ...headers };
    if (!input.flag('json') && isComplete) await hintAtFailedTest(tried, { ...ports, out });
  },
};

export const serverHideToolsCommand: Command = {
  words: 'server hide-tools',
  positionals: path,
  options: [
    { name: 'tool', value: 'NAME', repeated: true, doc: 'a tool to hide' },
    { name: 'none', doc: 'show all tools again' },
    json,
  ],
  doc: 'hide exactly these tools of a server; --none shows all again; without options, show the hidden ones',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const tools = [...input.list('tool')];
    const isNone = input.flag('none');
    if (isNone && tools.length > 0) throw new UsageError('give --tool, or --none, but not both');
    const before = await administer(serverRead, at, ports);
    const requiresOption = isNone || tools.length > 0;
    const { id, hiddenTools } = requiresOption
      ? await administer(serverUpdate, { ...at, hiddenTools: tools }, ports)
      : before;
    const facts = { id, name: `${at.organization}/${at.server}`, hidden_tools: hiddenTools };
    const isJson = input.flag('json');
    printMade(facts, { json: isJson, out });
    if (!requiresOption || isJson) return;
    const released = before.hiddenTools.filter((name) => !hiddenTools.includes(name));
    const { unlisted: never, isListKnown } = await findUnlisted(at, released, ports);
    // A name that the server has never listed was misspelt, and hid nothing.
    const shown = isListKnown ? released.filter((name) => !never.includes(name)) : released;
    if (shown.length > 0) out(`hint: shown again: ${shown.join(', ')}`);
    const unlisted = await unlistedHint(at, hiddenTools, ports);
    if (unlisted !== undefined) out(`hint: ${unlisted}`);
  },
};

export const serverDisableCommand = command(serverDisable, {
  words: 'server disable',
  positionals: [serverArgument],
  doc: 'disable a server immediately',
  prints: ['id', { name: pathOf }, 'disabledAt'],
});

export const serverEnableCommand = command(serverEnable, {
  words: 'server enable',
  positionals: [serverArgument],
  doc: 'enable a disabled server',
  prints: ['id', { name: pathOf }, 'disabledAt'],
});

export const serverDeleteCommand: Command = {
  words: 'server delete',
  positionals: path,
  options: [
    { name: 'yes', doc: 'delete it; without this option, only show what would stop working' },
    json,
  ],
  doc: 'delete a server with its clients, keys and grants immediately; this cannot be undone',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const name = `${at.organization}/${at.server}`;
    if (!input.flag('yes')) {
      throw new CommandError(
        `nothing was deleted: ${await lostWith(at, ports)}`,
        `latchkey-server server delete ${name} --yes`,
      );
    }
    const { id } = await administer(serverDelete, at, ports);
    printMade({ id, name, removed_at: ports.clock.now() }, { json: input.flag('json'), out });
  },
};

/** Describes what stops working if a server is deleted. */
async function lostWith(
  at: { readonly organization: string; readonly server: string },
  ports: Ports,
): Promise<string> {
  const { activeClients, activeKeys, activeGrants, collections } = await administer(
    serverRead,
    at,
    ports,
  );
  const deployment = await administer(deploymentRead, at, ports);
  const those = installedForWhom(deployment);
  return [
    `deleting ${at.organization}/${at.server} revokes its active OAuth clients (${activeClients}), API keys (${activeKeys}) and grants (${activeGrants})`,
    collections.length > 0
      ? `it leaves the ${collections.length === 1 ? 'collection' : 'collections'} ${fewNames(collections)}`
      : [],
    those === undefined
      ? []
      : `deployment files install it for ${those}: distribute new ones afterwards`,
    deployment.publication ? 'its public entry in the registry disappears' : [],
  ]
    .flat()
    .join('; ');
}

/** Reads the fixed headers that were given, which only an HTTP upstream may have. @throws {UsageError} @throws {CommandError} */
function headersBeside(input: Input): { headers?: GivenHeader[] } {
  const headers = readHeaders(input);
  if (headers.length === 0) return {};
  if (input.text('http-url') !== undefined) return { headers };
  const hint = 'latchkey-server server set-header ORG/SERVER --http-header-file NAME=FILE';
  throw new UsageError('--http-header-file requires --http-url', hint);
}

const limitUnits = {
  callsPerMinute: 'COUNT',
  concurrentCalls: 'COUNT',
  requestBytes: 'SIZE',
  answerBytes: 'SIZE',
  callSeconds: 'SECONDS',
} as const;

const limitDocs = {
  callsPerMinute: 'requests per caller in any minute; notifications: twice as many',
  concurrentCalls: 'concurrent requests per caller; open streams: four times as many',
  requestBytes: 'the largest request body, in bytes or as 4MB',
  answerBytes: 'the largest response, in bytes or as 4MB',
  callSeconds: 'the longest that a request and its response may take, in seconds',
} as const;

const limitOptions: readonly Option[] = limitNames.map((limit) => ({
  name: optionName(limit),
  value: `${limitUnits[limit]}|none`,
  doc: limitDocs[limit],
}));

export const serverLimitCommand: Command = {
  words: 'server limit',
  positionals: ['ORG/SERVER'],
  options: [...limitOptions, json],
  doc: 'set the limits of a server; without options, show them',
  async run(input, { out, ...ports }) {
    const { organization, name } = await namedServer(input.positionals[0] ?? '', ports.stores);
    const typed = limitNames.flatMap((limit) => {
      const text = input.text(optionName(limit));
      return text === undefined ? [] : [[limit, readLimit(limit, text)] as const];
    });
    const at = { organization, server: name };
    const change = { ...at, limits: Object.fromEntries(typed) };
    const { id, limits } =
      typed.length > 0
        ? await administer(serverUpdate, change, ports)
        : await administer(serverRead, at, ports);
    const shown = limitNames.map((limit) => [wireName(limit), limits[limit]] as const);
    const facts = { id, name: `${organization}/${name}`, ...Object.fromEntries(shown) };
    printMade(facts, { json: input.flag('json'), out });
  },
};

/** @throws {UsageError} with the option and its bounds */
function readLimit(limit: keyof ServerLimits, text: string): number | null {
  if (text === 'none') return null;
  const [least, most] = limitBounds[limit];
  const name = optionName(limit);
  if (limit === 'requestBytes' || limit === 'answerBytes') {
    const bytes = bytesOfSize(text, 'bytes');
    if (bytes >= least && bytes <= most) return bytes;
    throw new UsageError(
      `--${name} '${text}' is neither none nor a size from ${sizeOfBytes(least)} to ${sizeOfBytes(most)}, such as 65536 or 4MB`,
    );
  }
  const value = Number(text);
  if (/^\d{1,12}$/.test(text) && value >= least && value <= most) return value;
  throw new UsageError(
    `--${name} '${text}' is neither none nor a whole number, ${least} to ${most}`,
  );
}
