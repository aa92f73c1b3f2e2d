import { z } from 'zod';

import type { AdministrationPorts } from './administration-ports.ts';
import { notFound } from './administration-refusal.ts';
import { fields, words } from './fields.ts';

/** The fields that name one group, its path, and what the audit log calls it. */
export const ofGroup = { organization: fields.organization, groupId: z.string().max(100) };
export const groupsPath = '/organizations/{organization}/groups';
export const groupPath = `${groupsPath}/{groupId}`;
export function groupTarget({ groupId }: { readonly groupId: string }): string {
  return `group:${groupId}`;
}

/** What a person calls a group. */
export const groupName = words(100).min(1);

/** A group as every surface shows it. */
export const shownGroup = z
  .object({
    id: z.string(),
    name: z.string(),
    members: z.int().describe('How many people are in it'),
    servers: z.array(z.string()).describe('The servers that it opens'),
    createdAt: fields.at,
  })
  .meta({ id: 'Group' });

/** `members` is a number; `servers` are names. */
export type ShownGroup = z.output<typeof shownGroup>;

/** The groups of an organization. */
export async function showGroups(
  organizationId: string,
  { groups }: Pick<AdministrationPorts, 'groups'>,
): Promise<ShownGroup[]> {
  const list = await groups.list(organizationId);
  return list.map(({ id, name, memberCount, servers, createdAt }) => {
    return { id, name, members: memberCount, servers: [...servers], createdAt };
  });
}

/** A group of this organization. @throws {AdministrationRefusal} `not_found` */
export async function ownGroup(
  organizationId: string,
  groupId: string,
  ports: Pick<AdministrationPorts, 'groups'>,
): Promise<ShownGroup> {
  const groups = await showGroups(organizationId, ports);
  const group = groups.find(({ id }) => id === groupId);
  if (group) return group;
  throw notFound('group');
}
