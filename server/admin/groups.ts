import { nearest } from 'latchkey-mcp/suggest';
import { z } from 'zod';

import { organizationOperation, type Operation, type WithDb } from './operation.ts';
import { AdministrationRefusal, conflict, invalidField, notFound } from './refusal.ts';
import { type FieldControl, fields, surfaces, words } from './fields.ts';
import {
  listGroups,
  insertGroup,
  isSameName,
  deleteGroup,
  listGroupMappings,
  listGroupMembers,
  listRuledByGroup,
  renameGroup,
  insertGroupMapping,
  insertGroupMember,
  removeGroupMapping,
  removeGroupMember,
} from '#db/groups';
import { findMember } from '#db/people';
import { fewNames } from '#model/few-names';
import { shellWord } from '#model/shell-word';
import { primitiveKinds } from '#model/tool-rights';
import { randomBase62 } from '#secrets/secrets';
import { CommandError } from '#config/usage-error';
import { administer } from './command.ts';
import { namedOrganization, organizationIn, type Ports, type Positional } from './positionals.ts';
import { viewOf } from './views.ts';

/** The input fields that name a group, its path in the API, and its name in the audit log. */
export const ofGroup = { organization: fields.organization, groupId: z.string().max(100) };
const groupsPath = '/organizations/{organization}/groups';
const groupPath = `${groupsPath}/{groupId}`;
function groupTarget({ groupId }: { readonly groupId: string }): string {
  return `group:${groupId}`;
}

/** Refuses a field with the id of a group that does not exist. */
export function unknownGroup(field = 'groupIds'): AdministrationRefusal {
  return invalidField(field, 'names a group that does not exist');
}

/** Group ids in a query string, in which a single id arrives as a string instead of a list. */
export const groupIdsInQuery = z.preprocess(
  (given) => (typeof given === 'string' ? [given] : given),
  z.array(ofGroup.groupId).max(100).default([]),
);

/** The control with which forms choose groups. Pages offer the groups of the organization. */
export const groupsControl = {
  kind: 'checkboxes',
  name: 'group',
  label: 'Groups',
  subject: 'The list of groups',
  choices: [],
} as const satisfies FieldControl;

const groupName = words(100).min(1);

/** The view of a group: on pages, in the API and in commands. */
const groupViewSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    members: z.int().describe('The number of members'),
    servers: z.array(z.string()).describe('The servers that it gives access to'),
    restricted: z
      .array(
        z.object({
          server: z.string(),
          kind: z.enum(primitiveKinds),
          name: z.string().nullable().describe('Null: all of the kind without a rule of its own'),
        }),
      )
      .describe('What of servers is restricted to it'),
    createdAt: fields.at,
  })
  .meta({ id: 'Group' });

/** `members` is the number of members; `servers` are the names of the servers limited to the group. */
export type GroupView = z.output<typeof groupViewSchema>;

async function listGroupViews(organizationId: string, { db }: WithDb): Promise<GroupView[]> {
  const list = await listGroups(db, organizationId);
  const ruled = await listRuledByGroup(db, organizationId);
  return list.map((group) => {
    const restricted = (ruled.get(group.id) ?? []).map(({ server, kind, name = null }) => {
      return { server, kind, name };
    });
    return viewOf(groupViewSchema, { ...group, members: group.memberCount, restricted });
  });
}

/** Finds a group of an organization. @throws {AdministrationRefusal} `not_found` */
async function ownGroup(
  organizationId: string,
  groupId: string,
  ports: WithDb,
): Promise<GroupView> {
  const groups = await listGroupViews(organizationId, ports);
  const group = groups.find(({ id }) => id === groupId);
  if (group) return group;
  throw notFound('group');
}

const inOrganization = { organization: fields.organization };

export const groupList = organizationOperation({
  name: 'group.list',
  doc: 'List the groups of an organization',
  route: { method: 'GET', path: groupsPath },
  permission: 'people.read',
  input: z.strictObject(inOrganization),
  output: z.object({ items: z.array(groupViewSchema) }),
  run: async (_input, { organization }, ports) => ({
    items: await listGroupViews(organization.id, ports),
  }),
});

export const groupRead = organizationOperation({
  name: 'group.read',
  doc: 'Read a group with its members and the provider’s groups that are mapped to it',
  route: { method: 'GET', path: groupPath },
  permission: 'people.read',
  input: z.strictObject(ofGroup),
  output: groupViewSchema
    .extend({
      people: z.array(
        z.object({
          id: z.string(),
          email: z.string(),
          source: z.enum(['hand', 'provider', 'scim']).describe('Who added them'),
        }),
      ),
      externalNames: z.array(z.string()),
    })
    .meta({ id: 'GroupWithMembers' }),
  async run({ groupId }, { organization }, ports) {
    const group = await ownGroup(organization.id, groupId, ports);
    const mappings = await listGroupMappings(ports.db, organization.id);
    const people = await listGroupMembers(ports.db, groupId);
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
  doc: 'Create a group',
  route: { method: 'POST', path: groupsPath },
  permission: 'people.manage',
  input: z.strictObject({
    ...inOrganization,
    name: groupName.clone().register(surfaces, {
      control: {
        kind: 'text',
        label: 'Name',
        subject: 'The name',
        attributes: { maxlength: '100', autocomplete: 'off' },
      },
    }),
  }),
  output: groupViewSchema,
  target: (_, made) => made && groupTarget({ groupId: made.id }),
  async run({ name }, { organization }, ports) {
    const id = `group_${randomBase62(16)}`;
    const made = { id, organizationId: organization.id, name, createdAt: ports.clock.now() };
    if (!(await insertGroup(ports.db, made))) throw await taken(name, organization.id, ports);
    return ownGroup(organization.id, id, ports);
  },
});

const groupRename = organizationOperation({
  name: 'group.rename',
  doc: 'Rename a group',
  route: { method: 'PATCH', path: groupPath },
  permission: 'people.manage',
  input: z.strictObject({ ...ofGroup, name: groupName }),
  output: groupViewSchema,
  target: groupTarget,
  async run({ groupId, name }, { organization }, ports) {
    await ownGroup(organization.id, groupId, ports);
    const isDone = await renameGroup(ports.db, organization.id, groupId, name);
    if (!isDone) throw await taken(name, organization.id, ports);
    return ownGroup(organization.id, groupId, ports);
  },
});

export const groupDelete = organizationOperation({
  name: 'group.delete',
  doc: 'Delete a group that no server and no tool is restricted to',
  route: { method: 'DELETE', path: groupPath },
  permission: 'people.manage',
  input: z.strictObject(ofGroup),
  output: groupViewSchema,
  target: groupTarget,
  async run({ groupId }, { organization }, ports) {
    const group = await ownGroup(organization.id, groupId, ports);
    if ((await deleteGroup(ports.db, organization.id, groupId)) === 'done') return group;
    throw conflict(inUse(group));
  },
});

/** Why a group cannot be deleted. */
function inUse({ name, servers, restricted }: GroupView): string {
  const all = [...servers, ...restricted.map(restrictedText)];
  const [are, them] = all.length === 1 ? ['is', 'it'] : ['are', 'them'];
  return `${fewNames(all)} ${are} restricted to ${name}: first open ${them} to everyone, or choose other groups`;
}

/** A part of a server that only members of a group may use. */
export type Restricted = GroupView['restricted'][number];

/** `get-env of everything`, `the prompt greet of everything`, `other tools of everything`. */
function restrictedText({ server, kind, name }: Restricted): string {
  const what = name === null ? `other ${kind}s` : kind === 'tool' ? name : `the ${kind} ${name}`;
  return `${what} of ${server}`;
}

async function taken(
  name: string,
  organizationId: string,
  { db }: WithDb,
): Promise<AdministrationRefusal> {
  const groups = await listGroups(db, organizationId);
  const twin = groups.find((one) => isSameName(one.name, name));
  return conflict(`the group ${twin?.name ?? name} already exists`);
}

/** The parts that adding and removing a member share. */
const ofMember = {
  permission: 'people.manage',
  input: z.strictObject({ ...ofGroup, userId: z.string().max(100) }),
  output: groupViewSchema,
  target: ({ groupId, userId }: { groupId: string; userId: string }) =>
    `${groupTarget({ groupId })} user:${userId}`,
} as const;
const memberPath = `${groupPath}/people/{userId}`;

export const groupAddMember = organizationOperation({
  name: 'group.add-member',
  doc: 'Add a member of the organization to a group',
  route: { method: 'POST', path: memberPath },
  ...ofMember,
  async run({ groupId, userId }, { organization }, ports) {
    const isAdded = await insertGroupMember(ports.db, organization.id, groupId, userId);
    // This also refuses a group that does not exist. Looking the group up before, too, would make long lists of people slower.
    const group = await ownGroup(organization.id, groupId, ports);
    if (!isAdded) throw notFound('person');
    return group;
  },
});

export const groupRemoveMember = organizationOperation({
  name: 'group.remove-member',
  doc: 'Remove a person who was added to a group by hand; access through the group ends immediately',
  route: { method: 'DELETE', path: memberPath },
  ...ofMember,
  async run({ groupId, userId }, { organization }, ports) {
    const { name } = await ownGroup(organization.id, groupId, ports);
    const isRemoved = await removeGroupMember(ports.db, organization.id, groupId, userId);
    if (!isRemoved) throw await notRemoved({ groupId, name, userId }, organization.id, ports);
    return ownGroup(organization.id, groupId, ports);
  },
});

/** Why a person cannot be removed from a group by hand. */
async function notRemoved(
  { groupId, name, userId }: { readonly groupId: string; readonly name: string; userId: string },
  organizationId: string,
  { db }: WithDb,
): Promise<AdministrationRefusal> {
  const member = await findMember(db, organizationId, userId);
  if (!member) return notFound('person');
  const people = await listGroupMembers(db, groupId);
  const inGroup = people.find((one) => one.userId === userId);
  if (!inGroup) {
    return new AdministrationRefusal('not_found', `${member.email} is not in the group ${name}`);
  }
  const by = inGroup.source === 'scim' ? 'the directory' : 'the identity provider';
  return conflict(`${by} puts ${member.email} into the group ${name}: remove them there`);
}

/** The parts that adding and removing a mapping share. */
const ofMapping = {
  permission: 'people.manage',
  input: z.strictObject({
    ...ofGroup,
    externalName: words(256)
      .min(1)
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Group name at the provider',
          subject: 'The name',
          help: 'Exactly as the provider sends it.',
          attributes: { maxlength: '256', autocomplete: 'off', spellcheck: 'false' },
        },
      }),
  }),
  output: groupViewSchema,
  target: ({ groupId, externalName }: { groupId: string; externalName: string }) =>
    `${groupTarget({ groupId })} ${externalName}`,
} as const;
const mappingsPath = `${groupPath}/external-names`;

export const groupMap = organizationOperation({
  name: 'group.map',
  doc: 'Map an identity-provider group to a group here',
  route: { method: 'POST', path: mappingsPath },
  ...ofMapping,
  async run({ groupId, externalName }, { organization }, ports) {
    await ownGroup(organization.id, groupId, ports);
    await insertGroupMapping(ports.db, organization.id, externalName, groupId);
    return ownGroup(organization.id, groupId, ports);
  },
});

export const groupUnmap = organizationOperation({
  name: 'group.unmap',
  doc: 'Remove a mapping; people who were in the group only through it leave the group',
  route: { method: 'POST', path: `${mappingsPath}/remove` },
  ...ofMapping,
  async run({ groupId, externalName }, { organization }, ports) {
    await ownGroup(organization.id, groupId, ports);
    const isRemoved = await removeGroupMapping(ports.db, organization.id, externalName, groupId);
    if (!isRemoved) throw notFound('mapping');
    return ownGroup(organization.id, groupId, ports);
  },
});

export const groupOperations: readonly Operation[] = [
  groupList,
  groupRead,
  groupCreate,
  groupRename,
  groupDelete,
  groupAddMember,
  groupRemoveMember,
  groupMap,
  groupUnmap,
];

/** Finds the ids of groups that are given by name or by id. @throws {CommandError} when there is no such group */
export async function findGroups(
  organization: string,
  wanted: readonly string[],
  ports: Ports,
): Promise<string[]> {
  await namedOrganization(organization, ports.stores);
  if (wanted.length === 0) return [];
  const { items } = await administer(groupList, { organization }, ports);
  return wanted.map((text) => {
    const found = items.find(({ id, name }) => id === text || name === text);
    if (found) return found.id;
    const meant =
      items.find(({ name }) => isSameName(name, text))?.name ??
      nearest(
        text,
        items.map(({ name }) => name),
      );
    const asks = meant === undefined ? '' : `did you mean ${shellWord(meant)}? `;
    const hint = `${asks}latchkey-server group list ${organization}`;
    throw new CommandError(`there is no group '${text}' in ${organization}`, hint);
  });
}

/** The argument GROUP: a group of the organization that an earlier argument names. */
export const groupArgument: Positional = {
  usage: 'GROUP',
  async read(text, ports, given) {
    const [groupId] = await findGroups(organizationIn(given), [text], ports);
    return { groupId };
  },
};
