import {
  groupAddMember,
  groupMap as map,
  groupRemoveMember,
  groupUnmap as unmap,
} from '#administration/group-member-operations';
import {
  groupCreate as create,
  groupDelete as remove,
  groupList as list,
} from '#administration/group-operations';
import { serverGroupsSet } from '#administration/server-group-operations';
import { json } from '#config/option';
import { CommandError } from '#config/usage-error';
import { administer } from './administer.ts';
import type { Command, CommandPorts } from './command.ts';
import { findUser } from './find-user.ts';
import { findOrganization, findServer } from './named-server.ts';
import { printMade, printRows } from './print.ts';

type Ports = Pick<CommandPorts, 'stores' | 'clock'>;

/** The ids of groups that a person called by their names, or by their ids. @throws {CommandError} */
export async function findGroups(
  organization: string,
  wanted: readonly string[],
  ports: Ports,
): Promise<string[]> {
  await findOrganization(organization, ports.stores);
  if (wanted.length === 0) return [];
  const { items } = await administer(list, { organization }, ports);
  return wanted.map((text) => {
    const found = items.find(({ id, name }) => id === text || name === text);
    if (found) return found.id;
    const hint = `latchkey-server group list ${organization}`;
    throw new CommandError(`there is no group '${text}' in ${organization}`, hint);
  });
}

const findGroup = async (organization: string, text: string, ports: Ports) =>
  (await findGroups(organization, [text], ports))[0] ?? '';

export const groupList: Command = {
  words: 'group list',
  positionals: ['ORG'],
  options: [json],
  doc: 'list the groups of an organization, and the servers that they open',
  async run(input, { out, ...ports }) {
    const { name: organization } = await findOrganization(input.positionals[0] ?? '', ports.stores);
    const { items } = await administer(list, { organization }, ports);
    const rows = items.map(({ id, name, members, servers, createdAt }) => {
      return { id, name, members, servers, created_at: createdAt };
    });
    const empty = `no groups yet: latchkey-server group create ${organization} NAME`;
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

export const groupCreate: Command = {
  words: 'group create',
  positionals: ['ORG', 'NAME'],
  options: [json],
  doc: 'make a group of people',
  async run(input, { out, ...ports }) {
    const [organization = '', name = ''] = input.positionals;
    await findOrganization(organization, ports.stores);
    const { id } = await administer(create, { organization, name }, ports);
    printMade({ id, name }, { json: input.flag('json'), out });
  },
};

export const groupDelete: Command = {
  words: 'group delete',
  positionals: ['ORG', 'GROUP'],
  options: [json],
  doc: 'remove a group that no server is kept to',
  async run(input, { out, ...ports }) {
    const [organization = '', text = ''] = input.positionals;
    const groupId = await findGroup(organization, text, ports);
    const { id, name } = await administer(remove, { organization, groupId }, ports);
    printMade({ id, name }, { json: input.flag('json'), out });
  },
};

const onMember = (words: string, doc: string, operation: typeof groupAddMember): Command => ({
  words,
  positionals: ['ORG', 'GROUP', 'EMAIL'],
  options: [json],
  doc,
  async run(input, { out, ...ports }) {
    const [organization = '', text = '', email = ''] = input.positionals;
    const groupId = await findGroup(organization, text, ports);
    const { id: userId } = await findUser(email, ports.stores);
    const changed = await administer(operation, { organization, groupId, userId }, ports);
    const { id, name, members } = changed;
    printMade({ id, name, members }, { json: input.flag('json'), out });
  },
});

export const groupAdd = onMember('group add', 'put a member into a group', groupAddMember);
export const groupTakeOut = onMember(
  'group take-out',
  'take a person out of a group; what they use through it ends at once',
  groupRemoveMember,
);

const onMapping = (words: string, doc: string, operation: typeof map): Command => ({
  words,
  positionals: ['ORG', 'GROUP', 'EXTERNAL'],
  options: [json],
  doc,
  async run(input, { out, ...ports }) {
    const [organization = '', text = '', externalName = ''] = input.positionals;
    const groupId = await findGroup(organization, text, ports);
    const changed = await administer(operation, { organization, groupId, externalName }, ports);
    const { id, name, members } = changed;
    printMade({ id, name, members }, { json: input.flag('json'), out });
  },
});

export const groupMap = onMapping(
  'group map',
  'put whoever is in a group of the OpenID provider into one of ours',
  map,
);
export const groupUnmap = onMapping('group unmap', 'end such a mapping', unmap);

export const serverSetGroups: Command = {
  words: 'server set-groups',
  positionals: ['ORG/SERVER'],
  options: [
    {
      name: 'group',
      value: 'GROUP',
      repeated: true,
      doc: 'who may use it; none opens it to everybody',
    },
    json,
  ],
  doc: 'keep a server to some groups, or open it to every member',
  async run(input, { out, ...ports }) {
    const { organization, name: server } = await findServer(
      input.positionals[0] ?? '',
      ports.stores,
    );
    const groupIds = await findGroups(organization, input.list('group'), ports);
    const { groups } = await administer(serverGroupsSet, { organization, server, groupIds }, ports);
    const names = groups.map(({ name }) => name);
    printMade({ name: server, groups: names }, { json: input.flag('json'), out });
  },
};
