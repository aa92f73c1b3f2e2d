import { readNamedFile } from '#config/named-file';
import { json } from '#config/option';
import { CommandError, UsageError } from '#config/usage-error';
import { shellWord } from '#model/shell-word';
import { administer, command, listCommand, type Command } from './command.ts';
import {
  findGroups,
  groupAddMember,
  groupArgument,
  groupCreate,
  groupDelete,
  groupList,
  groupMap,
  groupRead,
  groupRemoveMember,
  groupUnmap,
  type GroupView,
  type Restricted,
} from './groups.ts';
import { type Candidate, findCandidates, isRejected, type Rejected } from './group-members.ts';
import { faultOfFile } from './invitation-commands.ts';
import { mostListed, readAddressList } from './invitation-list.ts';
import {
  type Given,
  namedOrganization,
  organizationArgument,
  organizationIn,
  personArgument,
  type Ports,
  textArgument,
} from './positionals.ts';
import { printRows } from './print.ts';

const mappingArguments = [
  organizationArgument,
  groupArgument,
  textArgument('EXTERNAL', 'externalName'),
];

/** For example `docs/search`, `docs/prompt:greet`, and `docs/*` for the default of everything without a rule of its own. */
function restrictedCell({ server, kind, name }: Restricted): string {
  return `${server}/${kind === 'tool' ? '' : `${kind}:`}${name ?? '*'}`;
}

/**
 * A hint with the commands that lift the restriction of the first server and the first tool to a group. The commands keep the
 * other groups that may use the server or tool; if there are none, they open it to everyone, and the hint says so.
 */
async function opens(given: Given, ports: Ports): Promise<string | undefined> {
  const group = await administer(groupRead, given, ports);
  const organization = organizationIn(given) ?? '';
  const { items } = await administer(groupList, { organization }, ports);
  const others = items.filter(({ id }) => id !== group.id);
  const [server] = group.servers;
  const [first] = group.restricted;
  const steps = [
    ...(server === undefined ? [] : [opensServer(`${organization}/${server}`, server, others)]),
    ...(first === undefined ? [] : [opensTool(`${organization}/${first.server}`, first, others)]),
  ];
  return steps.length === 0 ? undefined : steps.join('; then ');
}

function opensServer(path: string, server: string, groups: readonly GroupView[]): string {
  const others = groupOptions(groups.filter(({ servers }) => servers.includes(server)));
  const change = `latchkey-server server set-groups ${path}`;
  return others === '' ? `${everyone}${change} --everyone` : `${change}${others}`;
}

function opensTool(
  path: string,
  { server, kind, name }: Restricted,
  groups: readonly GroupView[],
): string {
  const isSame = (one: Restricted) =>
    one.server === server && one.kind === kind && one.name === name;
  const others = groupOptions(groups.filter(({ restricted }) => restricted.some(isSame)));
  const ofKind = kind === 'tool' ? '' : ` --kind ${kind}`;
  if (name === null) {
    const change = `latchkey-server tool default ${path}`;
    return others === ''
      ? `${everyone}${change} --everyone${ofKind}`
      : `${change}${others}${ofKind}`;
  }
  return others === ''
    ? `${everyone}latchkey-server tool open ${path} ${shellWord(name)}${ofKind}`
    : `latchkey-server tool restrict ${path} ${shellWord(name)}${others}${ofKind}`;
}

function groupOptions(groups: readonly GroupView[]): string {
  return groups.map(({ name }) => ` --group ${shellWord(name)}`).join('');
}

const everyone = 'to let everyone use it: ';

const addCommand: Command = {
  words: 'group add',
  positionals: ['ORG', 'GROUP', '[EMAIL…]'],
  options: [
    {
      name: 'from',
      value: 'FILE',
      doc: 'add everyone in a file: addresses, or CSV with a column email',
    },
    json,
  ],
  doc: 'add one or more members to a group',
  async run(input, { out, ...ports }) {
    const [org = '', group = '', ...typed] = input.positionals;
    const { id: organizationId, name: organization } = await namedOrganization(org, ports.stores);
    const [groupId = ''] = await findGroups(organization, [group], ports);
    const addresses = [...typed, ...listedIn(input.text('from'))];
    if (addresses.length === 0) throw new UsageError('EMAIL or --from FILE is missing');
    if (addresses.length > mostListed) {
      throw new UsageError(`there are more than ${mostListed} addresses`, 'add them in parts');
    }
    const { db } = ports.stores;
    const at = { organizationId, groupId };
    const candidates = await findCandidates(addresses, at, { db, clock: ports.clock });
    for (const one of candidates) {
      if (one.status !== 'ready') continue;
      await administer(groupAddMember, { organization, groupId, userId: one.userId }, ports);
    }
    const rows = candidates.map((one) => ({ email: one.typed, status: statusWords[one.status] }));
    printRows(rows, { json: input.flag('json'), empty: '', out });
    const rejected = candidates.filter(isRejected);
    if (rejected.length > 0) throw notAdded(rejected, candidates.length, { organization, group });
  },
};

/** @throws {UsageError} that names the faulty lines @throws {CommandError} if the file cannot be read */
function listedIn(file: string | undefined): readonly string[] {
  if (file === undefined) return [];
  const text = readNamedFile({ option: 'from', file });
  try {
    return readAddressList(text);
  } catch (error) {
    throw faultOfFile(error, file);
  }
}

const statusWords = {
  ready: 'added',
  'in-group': 'skipped: in the group already',
  invited: 'not added: invited, not joined yet',
  stranger: 'not added: not a member',
  malformed: 'not added: not an e-mail address',
} as const satisfies Record<Candidate['status'], string>;

function notAdded(
  rejected: readonly Rejected[],
  total: number,
  { organization, group }: { readonly organization: string; readonly group: string },
): CommandError {
  const [first] = rejected;
  const message =
    first && rejected.length === 1
      ? first.why
      : `${rejected.length} of ${total} addresses were not added`;
  const isAny = (status: Rejected['status']) => rejected.some((one) => one.status === status);
  const create = `latchkey-server invitation create ${organization} --role member --group ${shellWord(group)} --email EMAIL`;
  const hints = [
    ...(isAny('invited') ? [`latchkey-server invitation list ${organization}`] : []),
    ...(isAny('stranger') ? [`to invite someone: ${create}`] : []),
  ];
  return new CommandError(message, hints.length > 0 ? hints.join('; ') : undefined);
}

export const groupCommands: readonly Command[] = [
  command(groupCreate, {
    words: 'group create',
    positionals: [organizationArgument, textArgument('NAME', 'name')],
    doc: 'create a group',
    prints: ['id', 'name'],
    conflict: (given) =>
      `choose another name; latchkey-server group list ${organizationIn(given)} shows those in use`,
  }),
  listCommand(groupList, {
    words: 'group list',
    positionals: [organizationArgument],
    doc: 'list the groups of an organization, and the servers and tools that are restricted to them',
    prints: [
      'id',
      'name',
      'members',
      'servers',
      { tools: ({ restricted }) => restricted.map(restrictedCell) },
      'createdAt',
    ],
    empty: (given) => `no groups yet: latchkey-server group create ${organizationIn(given)} NAME`,
  }),
  addCommand,
  command(groupRemoveMember, {
    words: 'group remove',
    positionals: [organizationArgument, groupArgument, personArgument],
    doc: 'remove a person from a group; access through the group ends immediately',
    prints: ['id', 'name', 'members'],
  }),
  command(groupMap, {
    words: 'group map',
    positionals: mappingArguments,
    doc: 'map an identity-provider group to a group here',
    prints: ['id', 'name', 'members'],
  }),
  command(groupUnmap, {
    words: 'group unmap',
    positionals: mappingArguments,
    doc: 'remove the mapping of an identity-provider group',
    prints: ['id', 'name', 'members'],
  }),
  command(groupDelete, {
    words: 'group delete',
    positionals: [organizationArgument, groupArgument],
    doc: 'delete a group that no server and no tool is restricted to',
    prints: ['id', 'name'],
    conflict: opens,
  }),
];
