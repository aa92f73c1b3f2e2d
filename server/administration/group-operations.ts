import { z } from 'zod';

import { randomBase62 } from '#credentials/secret-format';
import { AdministrationRefusal } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { organizationOperation } from './operation.ts';
import {
  groupName,
  groupPath,
  groupsPath,
  groupTarget,
  ofGroup,
  ownGroup,
  showGroups,
  shownGroup,
} from './shown-group.ts';

const inOrganization = { organization: fields.organization };

export const groupList = organizationOperation({
  name: 'group.list',
  doc: 'List the groups of an organization',
  route: { method: 'GET', path: groupsPath },
  permission: 'people.read',
  input: z.strictObject(inOrganization),
  output: z.object({ items: z.array(shownGroup) }),
  run: async (_input, { organization }, ports) => ({
    items: await showGroups(organization.id, ports),
  }),
});

export const groupRead = organizationOperation({
  name: 'group.read',
  doc: 'Read a group with its members and the provider’s groups that are mapped to it',
  route: { method: 'GET', path: groupPath },
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
  async run({ groupId }, { organization }, ports) {
    const group = await ownGroup(organization.id, groupId, ports);
    const mappings = await ports.groupMappings.list(organization.id);
    const people = await ports.groupMembers.list(groupId);
    return {
      ...group,
      people: people.map(({ userId, email, source }) => ({ id: userId, email, source })),
      externalNames: mappings
        .filter((mapping) => mapping.groupId === groupId)
        .map(({ externalName }) => externalName),
    };
  },
});

export const groupCreate = organizationOperation({
  name: 'group.create',
  doc: 'Make a group',
  route: { method: 'POST', path: groupsPath },
  permission: 'people.manage',
  input: z.strictObject({ ...inOrganization, name: groupName }),
  output: shownGroup,
  target: (_, made) => made && groupTarget({ groupId: made.id }),
  async run({ name }, { organization }, ports) {
    const id = `group_${randomBase62(16)}`;
    const made = { id, organizationId: organization.id, name, createdAt: ports.clock.now() };
    if (!(await ports.groups.add(made))) throw taken();
    return ownGroup(organization.id, id, ports);
  },
});

export const groupRename = organizationOperation({
  name: 'group.rename',
  doc: 'Give a group another name',
  route: { method: 'PATCH', path: groupPath },
  permission: 'people.manage',
  input: z.strictObject({ ...ofGroup, name: groupName }),
  output: shownGroup,
  target: groupTarget,
  async run({ groupId, name }, { organization }, ports) {
    await ownGroup(organization.id, groupId, ports);
    if (!(await ports.groups.rename(organization.id, groupId, name))) throw taken();
    return ownGroup(organization.id, groupId, ports);
  },
});

export const groupDelete = organizationOperation({
  name: 'group.delete',
  doc: 'Remove a group that no server is kept to',
  route: { method: 'DELETE', path: groupPath },
  permission: 'people.manage',
  input: z.strictObject(ofGroup),
  output: shownGroup,
  target: groupTarget,
  async run({ groupId }, { organization }, ports) {
    const group = await ownGroup(organization.id, groupId, ports);
    if ((await ports.groups.remove(organization.id, groupId)) === 'done') return group;
    const why =
      'a server is kept to this group: choose others there first, or open it to everybody';
    throw new AdministrationRefusal('conflict', why);
  },
});

function taken(): AdministrationRefusal {
  return new AdministrationRefusal('conflict', 'there is a group of that name already');
}
