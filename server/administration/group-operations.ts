import { z } from 'zod';

import { randomBase62 } from '#credentials/secret-format';
import type { AdministrationPorts } from './administration-ports.ts';
import { AdministrationRefusal, invalidField, notFound } from './administration-refusal.ts';
import { fields, words } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { ownServer } from './shown-server.ts';

const inOrganization = { organization: fields.organization };
const groupId = z.string().max(100);
const ofGroup = { ...inOrganization, groupId };
const name = words(100).min(1);
const groups = '/organizations/{organization}/groups';
const path = `${groups}/{groupId}`;
const target = ({ groupId: id }: { groupId: string }) => `group:${id}`;

const shownGroup = z
  .object({
    id: z.string(),
    name: z.string(),
    members: z.int().describe('How many people are in it'),
    servers: z.array(z.string()).describe('The servers that it opens'),
    createdAt: fields.at,
  })
  .meta({ id: 'Group' });

export const groupList = organizationOperation({
  name: 'group.list',
  doc: 'List the groups of an organization',
  route: { method: 'GET', path: groups },
  permission: 'people.read',
  input: z.strictObject(inOrganization),
  output: z.object({ items: z.array(shownGroup) }),
  run: async (_input, { organization }, ports) => ({ items: await shown(organization.id, ports) }),
});

export const groupRead = organizationOperation({
  name: 'group.read',
  doc: 'Read a group with its members and the provider’s groups that are mapped to it',
  route: { method: 'GET', path },
  permission: 'people.read',
  input: z.strictObject(ofGroup),
  output: shownGroup
    .extend({
      people: z.array(
        z.object({
          id: z.string(),
          email: z.string(),
          source: z.enum(['hand', 'provider']).describe('Who put them there'),
        }),
      ),
      externalNames: z.array(z.string()),
    })
    .meta({ id: 'GroupWithMembers' }),
  async run({ groupId: id }, { organization }, ports) {
    const group = await own(organization.id, id, ports);
    const mappings = await ports.groupMappings.list(organization.id);
    const people = await ports.groupMembers.list(id);
    return {
      ...group,
      people: people.map(({ userId, email, source }) => ({ id: userId, email, source })),
      externalNames: mappings.filter((one) => one.groupId === id).map((one) => one.externalName),
    };
  },
});

export const groupCreate = organizationOperation({
  name: 'group.create',
  doc: 'Make a group',
  route: { method: 'POST', path: groups },
  permission: 'people.manage',
  input: z.strictObject({ ...inOrganization, name }),
  output: shownGroup,
  target: (_, made) => made && `group:${made.id}`,
  async run({ name: chosen }, { organization }, ports) {
    const id = `group_${randomBase62(16)}`;
    const createdAt = ports.clock.now();
    const made = { id, organizationId: organization.id, name: chosen, createdAt };
    if (!(await ports.groups.add(made))) throw taken();
    return own(organization.id, id, ports);
  },
});

export const groupRename = organizationOperation({
  name: 'group.rename',
  doc: 'Give a group another name',
  route: { method: 'PATCH', path },
  permission: 'people.manage',
  input: z.strictObject({ ...ofGroup, name }),
  output: shownGroup,
  target,
  async run({ groupId: id, name: chosen }, { organization }, ports) {
    await own(organization.id, id, ports);
    if (!(await ports.groups.rename(organization.id, id, chosen))) throw taken();
    return own(organization.id, id, ports);
  },
});

export const groupDelete = organizationOperation({
  name: 'group.delete',
  doc: 'Remove a group that no server is kept to',
  route: { method: 'DELETE', path },
  permission: 'people.manage',
  input: z.strictObject(ofGroup),
  output: shownGroup,
  target,
  async run({ groupId: id }, { organization }, ports) {
    const group = await own(organization.id, id, ports);
    if ((await ports.groups.remove(organization.id, id)) === 'done') return group;
    const why =
      'a server is kept to this group: choose others there first, or open it to everybody';
    throw new AdministrationRefusal('conflict', why);
  },
});

export const groupAddMember = organizationOperation({
  name: 'group.add-member',
  doc: 'Put a member of the organization into a group',
  route: { method: 'POST', path: `${path}/people/{userId}` },
  permission: 'people.manage',
  input: z.strictObject({ ...ofGroup, userId: z.string().max(100) }),
  output: shownGroup,
  target: ({ groupId: id, userId }) => `group:${id} user:${userId}`,
  async run({ groupId: id, userId }, { organization }, ports) {
    await own(organization.id, id, ports);
    if (!(await ports.groupMembers.add(organization.id, id, userId))) throw notFound('person');
    return own(organization.id, id, ports);
  },
});

export const groupRemoveMember = organizationOperation({
  name: 'group.remove-member',
  doc: 'Take somebody out of a group whom somebody put there; what they use through it ends at once',
  route: { method: 'DELETE', path: `${path}/people/{userId}` },
  permission: 'people.manage',
  input: z.strictObject({ ...ofGroup, userId: z.string().max(100) }),
  output: shownGroup,
  target: ({ groupId: id, userId }) => `group:${id} user:${userId}`,
  async run({ groupId: id, userId }, { organization }, ports) {
    await own(organization.id, id, ports);
    if (!(await ports.groupMembers.remove(organization.id, id, userId))) throw notFound('person');
    return own(organization.id, id, ports);
  },
});

export const groupMap = organizationOperation({
  name: 'group.map',
  doc: 'Put into a group whoever is in a group of the OpenID provider',
  route: { method: 'POST', path: `${path}/external-names` },
  permission: 'people.manage',
  input: z.strictObject({ ...ofGroup, externalName: words(256).min(1) }),
  output: shownGroup,
  target: ({ groupId: id, externalName }) => `group:${id} ${externalName}`,
  async run({ groupId: id, externalName }, { organization }, ports) {
    await own(organization.id, id, ports);
    await ports.groupMappings.add(organization.id, externalName, id);
    return own(organization.id, id, ports);
  },
});

export const groupUnmap = organizationOperation({
  name: 'group.unmap',
  doc: 'End a mapping; who was in the group by it alone is in it no more',
  route: { method: 'POST', path: `${path}/external-names/remove` },
  permission: 'people.manage',
  input: z.strictObject({ ...ofGroup, externalName: words(256).min(1) }),
  output: shownGroup,
  target: ({ groupId: id, externalName }) => `group:${id} ${externalName}`,
  async run({ groupId: id, externalName }, { organization }, ports) {
    await own(organization.id, id, ports);
    if (!(await ports.groupMappings.remove(organization.id, externalName, id))) {
      throw notFound('mapping');
    }
    return own(organization.id, id, ports);
  },
});

const shownRule = z
  .object({
    server: z.string(),
    groups: z.array(z.object({ id: z.string(), name: z.string() })),
  })
  .meta({ id: 'ServerGroups' });
const serverPath = '/organizations/{organization}/servers/{server}/groups';

export const serverGroupsRead = organizationOperation({
  name: 'server.groups',
  doc: 'Read which groups may use a server; none means every member',
  route: { method: 'GET', path: serverPath },
  permission: 'server.read',
  input: z.strictObject({ ...inOrganization, server: fields.server }),
  output: shownRule,
  async run({ server }, { organization }, ports) {
    const { id } = await ownServer(organization.name, server, ports);
    return { server, groups: await ports.serverGroups.of(id) };
  },
});

export const serverGroupsSet = organizationOperation({
  name: 'server.set-groups',
  doc: 'Keep a server to some groups, or open it to every member; whoever is outside loses it at once',
  route: { method: 'PATCH', path: serverPath },
  permission: 'server.manage',
  input: z.strictObject({
    ...inOrganization,
    server: fields.server,
    groupIds: z.array(groupId).max(100),
  }),
  output: shownRule,
  target: ({ organization, server }) => `server:${organization}/${server}`,
  async run({ server, groupIds }, { organization }, ports) {
    const { id } = await ownServer(organization.name, server, ports);
    if (!(await ports.serverGroups.set(id, groupIds))) {
      throw invalidField('groupIds', 'names a group that is not there');
    }
    return { server, groups: await ports.serverGroups.of(id) };
  },
});

async function shown(
  organizationId: string,
  { groups: kept }: Pick<AdministrationPorts, 'groups'>,
) {
  const list = await kept.list(organizationId);
  return list.map(({ id, name: called, memberCount: members, servers, createdAt }) => ({
    id,
    name: called,
    members,
    servers: [...servers],
    createdAt,
  }));
}

async function own(organizationId: string, id: string, ports: Pick<AdministrationPorts, 'groups'>) {
  const group = (await shown(organizationId, ports)).find((one) => one.id === id);
  if (group) return group;
  throw notFound('group');
}

function taken(): AdministrationRefusal {
  return new AdministrationRefusal('conflict', 'there is a group of that name already');
}
