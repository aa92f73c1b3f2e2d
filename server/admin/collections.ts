import { z } from 'zod';
import {
  addMember,
  changeMember,
  decideCollectionName,
  insertCollection,
  listMembers,
  listNames,
  mostMembers,
  type NewMember,
  removeMember,
} from '#db/collections';
import { listServers } from '#db/servers';
import type { NamedEntry, NameDecision } from '#model/collection-names';
import type { ServerRecord } from '#model/endpoints';
import { primitiveKinds } from '#model/tool-rights';
import { newTargetId, randomBase62 } from '#secrets/secrets';
import { fields } from './fields.ts';
import { type Operation, organizationOperation, type WithDb } from './operation.ts';
import { pageFields, pageOf, pageQuery, toPageView } from './paging.ts';
import { ownServer, serverTarget } from './paths.ts';
import { conflict, invalidField, notFound } from './refusal.ts';
import { serverSettingFields } from './server-settings.ts';
import { readableServer, serverViewSchema, toServerView } from './servers.ts';
import { namesShownOf, type NameReader } from './shown-names.ts';
import {
  primitiveName,
  resourceUri,
  toSelectionView,
  toolSelection,
  toolSelectionView,
} from './tool-selection.ts';
import { viewOf } from './views.ts';

/** The input fields that name a collection, its path in the API, and its name in the audit log. */
const ofCollection = {
  organization: fields.organization,
  collection: fields.server.clone().describe('The name of the collection'),
};
const collectionsPath = '/organizations/{organization}/collections';
const collectionPath = `${collectionsPath}/{collection}`;
type At = Record<keyof typeof ofCollection, string>;

function collectionTarget({ organization, collection }: At): string {
  return serverTarget({ organization, server: collection });
}

function memberTarget({ server, ...at }: At & { readonly server: string }): string {
  return `${collectionTarget(at)} member:${server}`;
}

const memberFields = {
  server: fields.server.clone().describe('A server of the same organization'),
  selection: toolSelection
    .clone()
    .default({ type: 'all' })
    .describe('What callers of the collection may use of it'),
};

const memberViewSchema = z
  .object({
    server: z.string().describe('The name of the server'),
    title: z.string(),
    selection: toolSelectionView,
    hasApps: z
      .boolean()
      .describe(
        'Whether it has pages of MCP Apps, which call its tools by name: it is never renamed',
      ),
    shown: z.int().describe('The number of its names that are shown'),
    waiting: z.int().describe('The number of its names that wait for a decision'),
  })
  .meta({ id: 'CollectionMember' });

const nameViewSchema = z
  .object({
    kind: z.enum(primitiveKinds),
    server: z.string(),
    name: z.string().describe('The server’s own name; of a resource its URI'),
    state: z
      .enum(['shown', 'waiting', 'left-out'])
      .describe('`waiting`: another name collides with it, and an administrator must choose'),
    shown: z.string().nullable().describe('The name that callers use'),
  })
  .meta({ id: 'CollectionName' });

/** A collection with its members, in their order, and the state of each of their names. */
const collectionViewSchema = serverViewSchema
  .extend({ members: z.array(memberViewSchema), names: z.array(nameViewSchema) })
  .meta({ id: 'Collection' });
export type CollectionView = z.output<typeof collectionViewSchema>;

/** Finds a collection of an organization. @throws {AdministrationRefusal} `not_found` */
async function ownCollection(
  { organization, collection }: At,
  ports: WithDb,
): Promise<ServerRecord> {
  const server = await ownServer(organization, collection, ports).catch(() => undefined);
  if (server?.target.upstream.kind === 'collection') return server;
  throw notFound('collection');
}

/**
 * The server that is to be a member.
 *
 * @throws {AdministrationRefusal} `invalid` when it does not exist, or is a collection itself
 */
async function memberNamed(
  organization: string,
  name: string,
  ports: WithDb,
): Promise<ServerRecord> {
  const server = await ownServer(organization, name, ports).catch(() => undefined);
  if (!server) throw invalidField('server', `${name} is not a server of this organization`);
  if (server.target.upstream.kind !== 'collection') return server;
  throw invalidField('server', `${name} is a collection, which cannot be a member of another one`);
}

/** The view of a collection for a reader, with only those names of its members that are shown to the reader. */
async function collectionView(at: At, reader: NameReader, ports: WithDb): Promise<CollectionView> {
  const collection = await ownCollection(at, ports);
  const [members, entries] = [
    await listMembers(ports.db, collection.id),
    await listNames(ports.db, collection.id),
  ];
  const names = new Map(members.map(({ id, name }) => [id, name]));
  const servers = members.map(({ name }) => name);
  const shownOf = await namesShownOf(reader, at.organization, servers, ports);
  const count = (member: string, state: NamedEntry['state']) =>
    entries.filter((entry) => entry.member === member && entry.state === state).length;
  return {
    ...readableServer(toServerView(collection, new Map()), reader),
    members: members.map(({ id, name, title, selection, hasApps }) => ({
      server: name,
      title,
      selection: toSelectionView(selection, shownOf(name)),
      hasApps,
      shown: count(id, 'shown'),
      waiting: count(id, 'waiting'),
    })),
    names: entries
      .filter(({ member, kind, name }) => shownOf(names.get(member))({ kind, name }))
      .map((entry) => toNameView(entry, names)),
  };
}

/** The view of a name; `members` has the names of servers by id. */
function toNameView(entry: NamedEntry, members: ReadonlyMap<string, string>) {
  const server = members.get(entry.member) ?? '';
  const shown = entry.state === 'shown' ? entry.shown : null;
  return viewOf(nameViewSchema, { ...entry, server, shown });
}

export const collectionList = organizationOperation({
  name: 'collection.list',
  doc: 'List the collections of an organization',
  route: { method: 'GET', path: collectionsPath },
  permission: 'server.read',
  input: z.strictObject({ organization: fields.organization, ...pageFields(['name']) }),
  output: pageOf(serverViewSchema),
  async run(input, { organization, role }, ports) {
    const query = { ...pageQuery(input), sort: 'name', kind: 'collection' } as const;
    const page = await listServers(ports.db, { ...query, organizationId: organization.id });
    return toPageView(page, input, (server) =>
      readableServer(toServerView(server, new Map()), { role }),
    );
  },
});

const { title, description, instructions } = serverSettingFields;

export const collectionCreate = organizationOperation({
  name: 'collection.create',
  doc: 'Create a collection: one endpoint made of several servers',
  route: { method: 'POST', path: collectionsPath, made: `${collectionsPath}/{name}` },
  permission: 'server.manage',
  input: z.strictObject({
    organization: fields.organization,
    name: fields.slug,
    members: z
      .array(z.strictObject(memberFields))
      .min(1)
      .max(mostMembers)
      .refine(
        (members) => new Set(members.map(({ server }) => server)).size === members.length,
        'names a server twice',
      )
      .describe('The order decides which one keeps a name that several have'),
    title,
    description,
    instructions,
  }),
  output: collectionViewSchema,
  target: ({ organization, name }) => collectionTarget({ organization, collection: name }),
  async run(input, { organization, ...reader }, ports) {
    const { name } = input;
    const members: NewMember[] = [];
    for (const { server, selection } of input.members) {
      const { id } = await memberNamed(organization.name, server, ports);
      members.push({ id, selection });
    }
    const added = await insertCollection(
      ports.db,
      {
        id: `srv_${randomBase62(16)}`,
        targetId: newTargetId(),
        organizationId: organization.id,
        name,
        ...(input.title && { title: input.title }),
        ...(input.description && { description: input.description }),
        ...(input.instructions && { instructions: input.instructions }),
        createdAt: ports.clock.now(),
      },
      members,
    );
    if (!added) throw conflict(`a server ${organization.name}/${name} already exists`);
    return collectionView({ organization: organization.name, collection: name }, reader, ports);
  },
});

export const collectionRead = organizationOperation({
  name: 'collection.read',
  doc: 'Read a collection with its members and their names',
  route: { method: 'GET', path: collectionPath },
  permission: 'server.read',
  input: z.strictObject(ofCollection),
  output: collectionViewSchema,
  run: ({ collection }, { organization, ...reader }, ports) =>
    collectionView({ organization: organization.name, collection }, reader, ports),
});

export const collectionAddMember = organizationOperation({
  name: 'collection.add-member',
  doc: 'Add a server to a collection; callers of the collection can use it immediately',
  route: { method: 'POST', path: `${collectionPath}/members` },
  permission: 'server.manage',
  input: z.strictObject({ ...ofCollection, ...memberFields }),
  output: collectionViewSchema,
  target: memberTarget,
  async run({ collection, server, selection }, { organization, ...reader }, ports) {
    const at = { organization: organization.name, collection };
    const { id } = await ownCollection(at, ports);
    const member = await memberNamed(organization.name, server, ports);
    if ((await listMembers(ports.db, id)).length >= mostMembers) {
      throw conflict(`a collection has at most ${mostMembers} servers`);
    }
    if (!(await addMember(ports.db, id, { id: member.id, selection }))) {
      throw conflict(`the collection already has the server ${server}`);
    }
    return collectionView(at, reader, ports);
  },
});

export const collectionSetMember = organizationOperation({
  name: 'collection.set-member',
  doc: 'Choose which tools, prompts and resources of a server a collection has',
  route: { method: 'PATCH', path: `${collectionPath}/members/{server}` },
  permission: 'server.manage',
  input: z.strictObject({ ...ofCollection, ...memberFields }),
  output: collectionViewSchema,
  target: memberTarget,
  async run({ collection, server, selection }, { organization, ...reader }, ports) {
    const at = { organization: organization.name, collection };
    const { id } = await ownCollection(at, ports);
    const member = await ownServer(organization.name, server, ports);
    if (!(await changeMember(ports.db, id, { id: member.id, selection }))) throw notFound('member');
    return collectionView(at, reader, ports);
  },
});

export const collectionRemoveMember = organizationOperation({
  name: 'collection.remove-member',
  doc: 'Remove a server from a collection immediately; its names are forgotten',
  route: { method: 'DELETE', path: `${collectionPath}/members/{server}` },
  permission: 'server.manage',
  input: z.strictObject({ ...ofCollection, server: memberFields.server }),
  output: collectionViewSchema,
  target: memberTarget,
  async run({ collection, server }, { organization, ...reader }, ports) {
    const at = { organization: organization.name, collection };
    const { id } = await ownCollection(at, ports);
    const member = await ownServer(organization.name, server, ports);
    if (!(await removeMember(ports.db, id, member.id))) throw notFound('member');
    return collectionView(at, reader, ports);
  },
});

const decisions = ['show', 'rename', 'leave-out', 'replace'] as const;

export const collectionChoose = organizationOperation({
  name: 'collection.choose',
  doc: 'Decide about a name: show it, rename it, leave it out, or let it replace the one that has its name',
  route: { method: 'POST', path: `${collectionPath}/names` },
  permission: 'server.manage',
  input: z.strictObject({
    ...ofCollection,
    server: memberFields.server,
    kind: z.enum(primitiveKinds).default('tool'),
    name: z.union([primitiveName, resourceUri]).describe('The server’s own name'),
    decision: z.enum(decisions),
    as: primitiveName.optional().describe('The new name, for `rename`'),
  }),
  output: z
    .object({ names: z.array(nameViewSchema) })
    .describe('The names that changed')
    .meta({ id: 'ChangedCollectionNames' }),
  target: ({ name, ...at }) => `${memberTarget(at)} name:${name}`,
  async run({ collection, server, kind, name, decision, as }, { organization }, ports) {
    const { id } = await ownCollection({ organization: organization.name, collection }, ports);
    const member = await ownServer(organization.name, server, ports);
    const pair = { kind, member: member.id, name };
    const decided = await decideCollectionName(ports.db, id, pair, decisionOf(decision, as));
    const names = new Map((await listMembers(ports.db, id)).map((one) => [one.id, one.name]));
    if (!('problem' in decided)) {
      return { names: decided.map((entry) => toNameView(entry, names)) };
    }
    switch (decided.problem) {
      case 'unknown':
        throw notFound('name');
      case 'taken': {
        const owner = `${names.get(decided.by.member) ?? ''}: ${decided.by.name}`;
        throw conflict(`the name belongs to ${owner}`);
      }
      case 'refused-name':
        throw invalidField('as', 'must be 1 to 64 letters, digits, _ or -, as assistants require');
      case 'has-apps':
        throw conflict(`pages of ${server} call its tools by name: rename the other one`);
      case 'not-renamed':
        throw invalidField('decision', 'cannot be rename: a URI never changes');
    }
  },
});

/** @throws {AdministrationRefusal} `invalid` if a new name is missing */
function decisionOf(decision: (typeof decisions)[number], as: string | undefined): NameDecision {
  if (decision !== 'rename') {
    if (as !== undefined) throw invalidField('as', 'is only for rename');
    return { decision };
  }
  if (as === undefined) throw invalidField('as', 'is missing');
  return { decision, as };
}

export const collectionOperations: readonly Operation[] = [
  collectionList,
  collectionCreate,
  collectionRead,
  collectionAddMember,
  collectionSetMember,
  collectionRemoveMember,
  collectionChoose,
];
