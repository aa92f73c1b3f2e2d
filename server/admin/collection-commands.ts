import { nearest } from 'latchkey-mcp/suggest';
import { endpointBase, json } from '#config/option';
import { CommandError, UsageError } from '#config/usage-error';
import { findServer, listServers } from '#db/servers';
import type { ToolSelection } from '#model/tool-rights';
import {
  collectionAddMember,
  collectionChoose,
  collectionCreate,
  collectionList,
  collectionRead,
  collectionRemoveMember,
  collectionSetMember,
  type CollectionView,
} from './collections.ts';
import { administer, type Command, type CommandPorts, listCommand } from './command.ts';
import {
  firstNames,
  namedOrganization,
  organizationArgument,
  organizationIn,
  splitPath,
} from './positionals.ts';
import { printMade, printRows } from './print.ts';
import { readSelection, selectionDoc, selectionValue } from './tool-selection.ts';
import { unlistedHint } from './unlisted-names.ts';

const memberOption = {
  name: 'member',
  value: 'SERVER[=TOOL,TOOL…]',
  repeated: true,
  required: true,
  doc: 'a server, and of its tools only these; the order decides who keeps a name that several have',
} as const;

const toolOption = {
  name: 'tools',
  value: selectionValue,
  doc: `what of the server: ${selectionDoc}`,
} as const;

const words = (['title', 'description', 'instructions'] as const).map((name) => ({
  name,
  value: 'TEXT',
  doc: name === 'instructions' ? 'instructions for assistants' : `the ${name}`,
}));

/** Reads `SERVER=TOOL,TOOL`, or `SERVER` for everything of the server. */
function memberIn(text: string): { server: string; selection: ToolSelection } {
  const [server = '', ...rest] = text.split('=');
  const tools = rest.length === 0 ? 'all' : rest.join('=');
  return { server, selection: readSelection(tools, 'member') };
}

/** The collection that `ORG/NAME` names. */
async function placeIn(text: string, { stores }: Parameters<Command['run']>[1]) {
  const { organization, name } = splitPath(text, 'desk');
  await namedOrganization(organization, stores);
  return { organization, collection: name };
}

/**
 * Checks that the servers which are to be members exist.
 *
 * @throws {CommandError} naming the first that does not, with the server whose name resembles it
 */
async function requireServers(
  organization: string,
  servers: readonly string[],
  { stores }: Pick<CommandPorts, 'stores'>,
): Promise<void> {
  for (const server of servers) {
    if (await findServer(stores.db, organization, server)) continue;
    const { id: organizationId } = await namedOrganization(organization, stores);
    const { items } = await listServers(stores.db, { organizationId, ...firstNames });
    const eligible = items.filter(({ target }) => target.upstream.kind !== 'collection');
    const names = eligible.map(({ name }) => name);
    // Someone may have typed `ORG/SERVER`, as other commands take it.
    const [, typedAfterSlash = ''] = server.split('/');
    const found = names.includes(typedAfterSlash) ? typedAfterSlash : nearest(server, names);
    throw new CommandError(
      `there is no server ${server} in ${organization}`,
      found ? `did you mean ${found}?` : `latchkey-server server list ${organization}`,
    );
  }
}

function factsOf({ id, organization, name, endpoint, members }: CollectionView) {
  const servers = members.map(({ server }) => server);
  const waiting = members.reduce((sum, member) => sum + member.waiting, 0);
  return { id, name: `${organization}/${name}`, servers, waiting, endpoint };
}

/** Prints a hint for each server with a chosen tool that the server has not listed. */
async function printUnlisted(
  {
    organization,
    members,
  }: { organization: string; members: readonly ReturnType<typeof memberIn>[] },
  { out, ...ports }: Pick<CommandPorts, 'out' | 'stores'>,
) {
  for (const { server, selection } of members) {
    if (selection.type !== 'chosen') continue;
    const hint = await unlistedHint({ organization, server }, selection.tools, ports);
    if (hint !== undefined) out(`hint: ${hint}`);
  }
}

const create: Command = {
  words: 'collection create',
  positionals: ['ORG/NAME'],
  options: [memberOption, ...words, endpointBase, json],
  doc: 'create a collection: one endpoint made of several servers',
  async run(input, { out, ...ports }) {
    const { organization, collection: name } = await placeIn(input.positionals[0] ?? '', {
      out,
      ...ports,
    });
    const texts = words.flatMap((word) => {
      const text = input.text(word.name);
      return text === undefined ? [] : [[word.name, text] as const];
    });
    const members = input.list('member').map(memberIn);
    const servers = members.map(({ server }) => server);
    await requireServers(organization, servers, ports);
    const given = { organization, name, members, ...Object.fromEntries(texts) };
    const made = await administer(collectionCreate, given, ports);
    const isJson = input.flag('json');
    const facts = factsOf(made);
    const endpoint = `${ports.stores.base ?? ''}${facts.endpoint}`;
    printMade({ ...facts, endpoint }, { json: isJson, out });
    if (!isJson) await printUnlisted({ organization, members }, { ...ports, out });
  },
};

const list = listCommand(collectionList, {
  words: 'collection list',
  positionals: [organizationArgument],
  doc: 'list collections and their servers',
  prints: [
    'id',
    'name',
    'title',
    { servers: ({ upstream }) => (upstream.kind === 'collection' ? upstream.members : []) },
    'createdAt',
    'disabledAt',
  ],
  empty: (given) =>
    `no collections yet: latchkey-server collection create ${organizationIn(given)}/NAME --member SERVER`,
});

const show: Command = {
  words: 'collection show',
  positionals: ['ORG/NAME'],
  options: [json],
  doc: 'show under which names a collection has what its servers offer, and what waits for a decision',
  async run(input, ports) {
    const at = await placeIn(input.positionals[0] ?? '', ports);
    const { names } = await administer(collectionRead, at, ports);
    const rows = names.map(({ server, kind, name, shown, state }) => {
      return { server, kind, name, shown, state };
    });
    const empty = 'no names yet: they are noted when a caller lists them for the first time';
    printRows(rows, { json: input.flag('json'), empty, out: ports.out });
  },
};

type MemberOperation = typeof collectionAddMember | typeof collectionSetMember;

const addOrSet = (operation: MemberOperation, verb: string, doc: string): Command => ({
  words: `collection ${verb}`,
  positionals: ['ORG/NAME', 'SERVER'],
  options: [toolOption, json],
  doc,
  async run(input, ports) {
    const at = await placeIn(input.positionals[0] ?? '', ports);
    const server = input.positionals[1] ?? '';
    const selection = readSelection(input.text('tools') ?? 'all', 'tools');
    if (operation === collectionAddMember) await requireServers(at.organization, [server], ports);
    const changed = await administer(operation, { ...at, server, selection }, ports);
    const isJson = input.flag('json');
    printMade(factsOf(changed), { json: isJson, out: ports.out });
    const members = [{ server, selection }];
    if (!isJson) await printUnlisted({ organization: at.organization, members }, ports);
  },
});

const remove: Command = {
  words: 'collection remove-member',
  positionals: ['ORG/NAME', 'SERVER'],
  options: [json],
  doc: 'remove a server from a collection immediately',
  async run(input, ports) {
    const at = await placeIn(input.positionals[0] ?? '', ports);
    const server = input.positionals[1] ?? '';
    const changed = await administer(collectionRemoveMember, { ...at, server }, ports);
    printMade(factsOf(changed), { json: input.flag('json'), out: ports.out });
  },
};

const choices = [
  { name: 'show', doc: 'show it under its own name' },
  { name: 'rename', value: 'NAME', doc: 'show it under another name' },
  { name: 'leave-out', doc: 'do not show it' },
  { name: 'replace', doc: 'show it instead of the one that has its name now' },
] as const;

const choose: Command = {
  words: 'collection choose',
  positionals: ['ORG/NAME', 'SERVER', 'TOOL'],
  options: [
    { name: 'kind', value: 'KIND', doc: 'tool (default), prompt, resource or template' },
    ...choices,
    json,
  ],
  doc: 'decide about a name of a server in a collection',
  async run(input, ports) {
    const at = await placeIn(input.positionals[0] ?? '', ports);
    const [, server = '', name = ''] = input.positionals;
    const as = input.text('rename');
    const chosen = choices.filter(({ name: one }) =>
      one === 'rename' ? as !== undefined : input.flag(one),
    );
    const [first, another] = chosen;
    if (!first || another) {
      throw new UsageError('give one of --show, --rename NAME, --leave-out and --replace');
    }
    const kind = input.text('kind');
    const { names } = await administer(
      collectionChoose,
      { ...at, server, name, decision: first.name, ...(as && { as }), ...(kind && { kind }) },
      ports,
    );
    printRows([...names], { json: input.flag('json'), empty: 'nothing changed', out: ports.out });
  },
};

export const collectionCommands: readonly Command[] = [
  create,
  list,
  show,
  addOrSet(collectionAddMember, 'add-member', 'add a server to a collection'),
  addOrSet(collectionSetMember, 'set-member', 'choose which tools of a server a collection has'),
  remove,
  choose,
];
