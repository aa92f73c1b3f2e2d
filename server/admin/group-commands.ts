import { shellWord } from '#model/shell-word';
import { administer, command, listCommand, type Command } from './command.ts';
import {
  findGroups,
  groupAddMember,
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
import {
  type Given,
  organizationArgument,
  organizationIn,
  personArgument,
  type Ports,
  type Positional,
  textArgument,
} from './positionals.ts';

const groupArgument: Positional = {
  usage: 'GROUP',
  async read(text, ports, given) {
    const [groupId] = await findGroups(organizationIn(given), [text], ports);
    return { groupId };
  },
};
const memberArguments = [organizationArgument, groupArgument, personArgument];
const mappingArguments = [
  organizationArgument,
  groupArgument,
  textArgument('EXTERNAL', 'externalName'),
];

/** `everything/get-env`, `everything/prompt:greet`, and `everything/*` for all that has no rule of its own. */
function restrictedCell({ server, kind, name }: Restricted): string {
  return `${server}/${kind === 'tool' ? '' : `${kind}:`}${name ?? '*'}`;
}

/**
 * The commands that take from a group the first server and the first tool that are restricted to it: for the other groups that may
 * use them, or else for everyone, which they say.
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
  command(groupAddMember, {
    words: 'group add',
    positionals: memberArguments,
    doc: 'add a member to a group',
    prints: ['id', 'name', 'members'],
  }),
  command(groupRemoveMember, {
    words: 'group remove',
    positionals: memberArguments,
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
