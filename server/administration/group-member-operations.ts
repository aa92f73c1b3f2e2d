import { z } from 'zod';

import { notFound } from './administration-refusal.ts';
import { words } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { groupPath, groupTarget, ofGroup, ownGroup, shownGroup } from './shown-group.ts';

/** What both changes of one member have in common. */
const ofMember = {
  permission: 'people.manage',
  input: z.strictObject({ ...ofGroup, userId: z.string().max(100) }),
  output: shownGroup,
  target: ({ groupId, userId }: { groupId: string; userId: string }) =>
    `${groupTarget({ groupId })} user:${userId}`,
} as const;
const memberPath = `${groupPath}/people/{userId}`;

export const groupAddMember = organizationOperation({
  name: 'group.add-member',
  doc: 'Put a member of the organization into a group',
  route: { method: 'POST', path: memberPath },
  ...ofMember,
  async run({ groupId, userId }, { organization }, ports) {
    await ownGroup(organization.id, groupId, ports);
    const isAdded = await ports.groupMembers.add(organization.id, groupId, userId);
    if (!isAdded) throw notFound('person');
    return ownGroup(organization.id, groupId, ports);
  },
});

export const groupRemoveMember = organizationOperation({
  name: 'group.remove-member',
  doc: 'Take somebody out of a group whom somebody put there; what they use through it ends at once',
  route: { method: 'DELETE', path: memberPath },
  ...ofMember,
  async run({ groupId, userId }, { organization }, ports) {
    await ownGroup(organization.id, groupId, ports);
    const isRemoved = await ports.groupMembers.remove(organization.id, groupId, userId);
    if (!isRemoved) throw notFound('person');
    return ownGroup(organization.id, groupId, ports);
  },
});

/** What both changes of one mapping have in common. */
const ofMapping = {
  permission: 'people.manage',
  input: z.strictObject({ ...ofGroup, externalName: words(256).min(1) }),
  output: shownGroup,
  target: ({ groupId, externalName }: { groupId: string; externalName: string }) =>
    `${groupTarget({ groupId })} ${externalName}`,
} as const;
const mappingsPath = `${groupPath}/external-names`;

export const groupMap = organizationOperation({
  name: 'group.map',
  doc: 'Put into a group whoever is in a group of the OpenID provider',
  route: { method: 'POST', path: mappingsPath },
  ...ofMapping,
  async run({ groupId, externalName }, { organization }, ports) {
    await ownGroup(organization.id, groupId, ports);
    await ports.groupMappings.add(organization.id, externalName, groupId);
    return ownGroup(organization.id, groupId, ports);
  },
});

export const groupUnmap = organizationOperation({
  name: 'group.unmap',
  doc: 'End a mapping; who was in the group by it alone is in it no more',
  route: { method: 'POST', path: `${mappingsPath}/remove` },
  ...ofMapping,
  async run({ groupId, externalName }, { organization }, ports) {
    await ownGroup(organization.id, groupId, ports);
    const isRemoved = await ports.groupMappings.remove(organization.id, externalName, groupId);
    if (!isRemoved) throw notFound('mapping');
    return ownGroup(organization.id, groupId, ports);
  },
});
