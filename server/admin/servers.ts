import { z } from 'zod';
import { findAgentByName, listAgentNames } from '#db/agents';
import { leaveCollections, listCollectionsOf } from '#db/collections';
import { countServerDependents } from '#db/server-dependents';
import { deleteServer, insertServer, listServers } from '#db/servers';
import { type ServerRecord } from '#model/endpoints';
import { newTargetId, randomBase62 } from '#secrets/secrets';
import {
  chooseUpstream,
  staysVouched,
  toUpstreamView,
  type UpstreamChoice,
  upstreamChoiceSchema,
  type UpstreamKind,
  upstreamViewSchema,
} from '#model/upstream-kinds';
import { fields, surfaces, nameControl, slugAttributes } from './fields.ts';
import {
  type Actor,
  type AdministrationPorts,
  type Operation,
  organizationOperation,
  type WithDb,
} from './operation.ts';
import { pageFields, pageOf, pageQuery, toPageView } from './paging.ts';
import { ofServer, ownServer, serverPath, serverTarget } from './paths.ts';
import { conflict, invalidField } from './refusal.ts';
import { seesAllNames } from './shown-names.ts';
import {
  changeServer,
  checkRevision,
  limitsViewSchema,
  serverSettingFields,
  settingsChange,
  toLimitsView,
} from './server-settings.ts';
import { type GivenHeader, headersOf, noteHeaders, upstreamWith } from './upstream-headers.ts';
import { viewOf } from './views.ts';

/** The view of a server: on pages, in the API and in commands. */
export const serverViewSchema = z
  .object({
    id: z.string(),
    organization: z.string(),
    name: z.string(),
    endpoint: z.string().describe('The path of its MCP endpoint'),
    title: z.string(),
    description: z.string(),
    instructions: z.string().describe('Instructions for assistants'),
    upstream: upstreamViewSchema,
    hiddenTools: z
      .array(z.string())
      .describe('Tools that are neither listed nor callable; empty for viewers and members'),
    changedTools: z
      .enum(['flag', 'withhold'])
      .describe('What happens to a tool whose definition changed'),
    newTools: z
      .enum(['offer', 'review'])
      .describe('What happens to what the server lists for the first time'),
    withheldTools: z
      .array(z.string())
      .describe(
        'Tools that are blocked until their definition is accepted; empty for viewers and members',
      ),
    limits: limitsViewSchema,
    revision: z.int().describe('Differs after each change'),
    createdAt: fields.at,
    disabledAt: fields.maybeAt,
  })
  .meta({ id: 'Server' });

/** Times in seconds since 1970, `null` for what has not happened. Missing texts are empty. */
export type ServerView = z.output<typeof serverViewSchema>;

/** Converts a stored server to its view. `agentNames` contains the names of the agents that serve it, by id. */
export function toServerView(
  server: ServerRecord,
  agentNames: ReadonlyMap<string, string>,
): ServerView {
  const { organization, name, target } = server;
  const { title = '', description = '', instructions = '', revision = 0 } = server;
  const { hiddenTools, changedTools, newTools } = target;
  return viewOf(serverViewSchema, {
    ...server,
    hiddenTools,
    changedTools,
    newTools,
    endpoint: `/mcp/${organization}/${name}`,
    title,
    description,
    instructions,
    upstream: toUpstreamView(target.upstream, agentNames),
    withheldTools: [...(target.offered.withheld.tool ?? [])],
    limits: toLimitsView(server.limits),
    revision,
  });
}

/** The view for a reader. Only a reader who manages servers sees the names of tools that no caller can use. */
export function readableServer<View extends ServerView>(
  view: View,
  reader: Parameters<typeof seesAllNames>[0],
): View {
  return seesAllNames(reader) ? view : { ...view, hiddenTools: [], withheldTools: [] };
}

/** The names of the agents that serve these servers, by id. */
async function agentNamesOf(
  servers: readonly Pick<ServerRecord, 'target'>[],
  { db }: WithDb,
): Promise<ReadonlyMap<string, string>> {
  const ids = servers.flatMap(({ target: { upstream } }) =>
    'agentId' in upstream ? [upstream.agentId] : [],
  );
  return listAgentNames(db, [...new Set(ids)]);
}

/**
 * Converts the choice of an administrator into the settings of an upstream; `before` is the current upstream.
 *
 * @throws {AdministrationRefusal} `invalid` when the organization has no such active agent, or calling the URL is forbidden
 */
async function chosenUpstream(
  choice: UpstreamChoice,
  { organization, actor, before }: { organization: string; actor: Actor; before?: UpstreamKind },
  { db, upstreamSetup }: Pick<AdministrationPorts, 'db' | 'upstreamSetup'>,
): Promise<UpstreamKind> {
  const chosen = await chooseUpstream(choice, {
    isOperator: actor.type === 'operator',
    before,
    isForbidden: (url) => upstreamSetup.isForbidden(url),
    async findAgent(name) {
      const agent = await findAgentByName(db, organization, name);
      return agent?.revokedAt === undefined ? agent?.id : undefined;
    },
  });
  if ('problem' in chosen) throw invalidField(`upstream.${chosen.field}`, chosen.problem);
  return chosen;
}

/** The fixed headers that were entered together with the upstream, if its kind can have any. */
function givenHeaders(upstream: UpstreamChoice): readonly GivenHeader[] | undefined {
  return 'headers' in upstream ? upstream.headers : undefined;
}

const inOrganization = { organization: fields.organization };

const { hiddenTools: hiddenToolsField, limits: limitsField, ...chosenWords } = serverSettingFields;

/** The fields that choose what happens to definitions that no one has accepted. */
const reviewFields = {
  changedTools: z
    .enum(['flag', 'withhold'])
    .optional()
    .describe(
      'What happens to a tool whose definition changed: reported, or blocked until accepted',
    ),
  newTools: z
    .enum(['offer', 'review'])
    .optional()
    .describe(
      'What happens to what the server lists for the first time: offered immediately, or blocked until accepted',
    ),
};

const sorts = { name: 'name', created_at: 'createdAt' } as const;

export const serverList = organizationOperation({
  name: 'server.list',
  doc: 'List the MCP servers of an organization',
  route: { method: 'GET', path: '/organizations/{organization}/servers' },
  permission: 'server.read',
  input: z.strictObject({
    ...inOrganization,
    status: z.enum(['enabled', 'disabled']).optional(),
    ...pageFields(['name', 'created_at']),
  }),
  output: pageOf(serverViewSchema),
  async run(input, { organization, role }, ports) {
    const query = { ...pageQuery(input), sort: sorts[input.sort], status: input.status };
    const page = await listServers(ports.db, { ...query, organizationId: organization.id });
    const names = await agentNamesOf(page.items, ports);
    return toPageView(page, input, (server) =>
      readableServer(toServerView(server, names), { role }),
    );
  },
});

export const serverCreate = organizationOperation({
  name: 'server.create',
  doc: 'Create a server: an MCP endpoint and its upstream',
  route: {
    method: 'POST',
    path: '/organizations/{organization}/servers',
    made: '/organizations/{organization}/servers/{name}',
  },
  permission: 'server.manage',
  input: z.strictObject({
    ...inOrganization,
    name: fields.slug.clone().register(surfaces, {
      control: nameControl(
        'Used in the endpoint URL; cannot be changed. Lower-case letters, digits and hyphens. Example: sales',
        slugAttributes,
      ),
    }),
    upstream: upstreamChoiceSchema,
    ...chosenWords,
    ...reviewFields,
  }),
  output: serverViewSchema,
  target: ({ organization, name }) => serverTarget({ organization, server: name }),
  async run(input, { organization, actor }, ports) {
    const { name, title, description, instructions, changedTools, newTools } = input;
    const place = { organization: organization.name, actor };
    const chosen = await chosenUpstream(input.upstream, place, ports);
    const id = `srv_${randomBase62(16)}`;
    const given = givenHeaders(input.upstream);
    const targetId = newTargetId();
    const upstream = upstreamWith(chosen, { targetId, given }, ports);
    const added = await insertServer(ports.db, {
      id,
      targetId,
      organizationId: organization.id,
      name,
      upstream,
      ...(title && { title }),
      ...(description && { description }),
      ...(instructions && { instructions }),
      ...(changedTools && { changedTools }),
      ...(newTools && { newTools }),
      createdAt: ports.clock.now(),
    });
    if (!added) throw conflict(`a server ${organization.name}/${name} already exists`);
    const made = await ownServer(organization.name, name, ports);
    await noteHeaders({ set: headersOf(made.target) }, { server: made, actor }, ports);
    return toServerView(made, await agentNamesOf([made], ports));
  },
});

const serverInUseSchema = serverViewSchema
  .extend({
    activeKeys: z.int(),
    activeClients: z.int(),
    activeGrants: z.int(),
    collections: z.array(z.string()).describe('The collections that it is a member of'),
  })
  .meta({ id: 'ServerInUse' });
export type ServerInUse = z.output<typeof serverInUseSchema>;

export const serverRead = organizationOperation({
  name: 'server.read',
  doc: 'Read a server, the number of its active credentials, and the collections that it is a member of',
  route: { method: 'GET', path: serverPath },
  permission: 'server.read',
  input: z.strictObject(ofServer),
  output: serverInUseSchema,
  async run({ server: name }, { organization, role }, ports) {
    const server = await ownServer(organization.name, name, ports);
    const dependents = await countServerDependents(ports.db, server.id, ports.clock.now());
    const collections = await listCollectionsOf(ports.db, server.id);
    const names = await agentNamesOf([server], ports);
    const view = { ...toServerView(server, names), ...dependents, collections };
    return readableServer(view, { role });
  },
});

export const serverUpdate = organizationOperation({
  name: 'server.update',
  doc: 'Change a server; changes take effect on the next call, and omitted fields keep their value',
  route: { method: 'PATCH', path: serverPath },
  permission: 'server.manage',
  input: z.strictObject({
    ...ofServer,
    ...chosenWords,
    upstream: upstreamChoiceSchema.optional(),
    hiddenTools: hiddenToolsField,
    ...reviewFields,
    limits: limitsField,
    revision: z.int().optional().describe('Change it only if it still has this revision'),
  }),
  output: serverViewSchema
    .extend({
      removedHeaders: z
        .array(z.string())
        .describe('Fixed headers that were removed because they were for another origin'),
    })
    .meta({ id: 'ChangedServer' }),
  target: serverTarget,
  async run(input, { organization, actor }, ports) {
    const at = { organization: organization.name, server: input.server };
    const { target } = await ownServer(at.organization, at.server, ports);
    if (input.upstream && target.upstream.kind === 'collection') {
      throw invalidField('upstream', 'is that of a collection: change its members instead');
    }
    const place = { organization: organization.name, actor, before: target.upstream };
    const chosen = input.upstream && (await chosenUpstream(input.upstream, place, ports));
    const given = input.upstream && givenHeaders(input.upstream);
    let had: readonly string[] = [];
    const change = (now: ServerRecord) => {
      checkRevision(now, input.revision);
      had = headersOf(now.target);
      const isOther = chosen !== undefined && !staysVouched(now.target.upstream, chosen);
      const { id: targetId, upstream: before, personKey } = now.target;
      const of = { targetId, before, given, keyHeader: personKey?.header };
      const upstream = upstreamWith(isOther ? chosen : now.target.upstream, of, ports);
      return {
        ...settingsChange(now, input),
        ...(input.changedTools && { changedTools: input.changedTools }),
        ...(input.newTools && { newTools: input.newTools }),
        ...((isOther || given) && { upstream }),
      };
    };
    const changed = await changeServer(at, change, ports);
    const set = given?.map(({ name }) => name) ?? [];
    const removed = had.filter((name) => !headersOf(changed.target).includes(name));
    await noteHeaders({ set, removed }, { server: changed, actor }, ports);
    const shown = toServerView(changed, await agentNamesOf([changed], ports));
    return { ...shown, removedHeaders: [...removed] };
  },
});

export const serverDisable = switching('disable', 'Disable a server immediately', true);
export const serverEnable = switching('enable', 'Enable a disabled server', false);

function switching(verb: 'disable' | 'enable', doc: string, off: boolean) {
  return organizationOperation({
    name: `server.${verb}`,
    doc,
    route: { method: 'POST', path: `${serverPath}/${verb}` },
    permission: 'server.manage',
    input: z.strictObject(ofServer),
    output: serverViewSchema,
    target: serverTarget,
    async run({ server: name }, { organization }, ports) {
      const at = { organization: organization.name, server: name };
      const change = ({ disabledAt }: ServerRecord) => ({
        disabledAt: off ? (disabledAt ?? ports.clock.now()) : null,
      });
      const changed = await changeServer(at, change, ports);
      return toServerView(changed, await agentNamesOf([changed], ports));
    },
  });
}

export const serverDelete = organizationOperation({
  name: 'server.delete',
  doc: 'Delete a server with its clients, keys and grants immediately; this cannot be undone',
  route: { method: 'DELETE', path: serverPath },
  permission: 'server.manage',
  input: z.strictObject(ofServer),
  output: z.object({ id: z.string(), organization: z.string(), name: z.string() }),
  target: serverTarget,
  async run({ server: name }, { organization }, ports) {
    const { id } = await ownServer(organization.name, name, ports);
    await leaveCollections(ports.db, id);
    await deleteServer(ports.db, id);
    return { id, organization: organization.name, name };
  },
});

export const serverOperations: readonly Operation[] = [
  serverList,
  serverCreate,
  serverRead,
  serverUpdate,
  serverDisable,
  serverEnable,
  serverDelete,
];
