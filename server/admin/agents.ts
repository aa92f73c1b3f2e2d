import { z } from 'zod';

import { CommandError } from '#config/usage-error';
import {
  findAgent,
  findAgentByName,
  insertAgent,
  listAgents,
  revokeAgent,
  type Agent,
} from '#db/agents';
import { listKeys } from '#db/keys';
import { listServers } from '#db/servers';
import { createKey } from './create-credentials.ts';
import type { EpochSeconds } from '#model/clock';
import { randomBase62 } from '#secrets/secrets';
import { command, listCommand, type Command } from './command.ts';
import { fields, surfaces, nameControl, slugAttributes } from './fields.ts';
import { agentKeyCreate, agentKeyRevoke, keyViewSchema, toKeyView } from './keys.ts';
import { actorName, organizationOperation, type Operation } from './operation.ts';
import { pageFields, pageOf, pageQuery, toPageView } from './paging.ts';
import { agentPath, ofAgent, ownAgent } from './paths.ts';
import {
  firstNames,
  askedFor,
  type Stores,
  namedOrganization,
  organizationArgument,
  organizationIn,
  splitPath,
  type Positional,
} from './positionals.ts';
import { conflict } from './refusal.ts';
import { toServerView, serverViewSchema } from './servers.ts';
import { viewOf } from './views.ts';

/** The view of an agent: on pages, in the API and in commands. `keyHint` belongs to its newest key. */
const agentViewSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    keyHint: z.string().nullable().describe('Prefix and last four characters of the newest key'),
    createdAt: fields.at,
    lastUsedAt: fields.maybeAt,
    revokedAt: fields.maybeAt,
    suspended: z.boolean().describe('Whether it is refused because its owner left'),
    isOnline: z
      .boolean()
      .describe('Whether it is connected; after the end of a server by force, up to a minute old'),
  })
  .meta({ id: 'Agent' });

/** Times in seconds since 1970, `null` for what has not happened. */
export type AgentView = z.output<typeof agentViewSchema>;

/** Converts a stored agent to its view. */
function toAgentView(agent: Agent, now: EpochSeconds): AgentView {
  const isOnline = agent.revokedAt === undefined && (agent.onlineUntil ?? 0) > now;
  return viewOf(agentViewSchema, { ...agent, suspended: agent.isSuspended, isOnline });
}

const inOrganization = { organization: fields.organization };
const target = ({ organization, agent }: { organization: string; agent: string }) =>
  `agent:${organization}/${agent}`;

const sorts = { created_at: 'createdAt', name: 'name', last_used_at: 'lastUsedAt' } as const;

export const agentList = organizationOperation({
  name: 'agent.list',
  doc: 'List the on-premise agents of an organization',
  route: { method: 'GET', path: '/organizations/{organization}/agents' },
  permission: 'agent.read',
  input: z.strictObject({
    ...inOrganization,
    status: z.enum(['active', 'revoked']).optional(),
    ...pageFields(['created_at', 'name', 'last_used_at']),
  }),
  output: pageOf(agentViewSchema),
  async run(input, { organization }, { db, clock }) {
    const query = { ...pageQuery(input), sort: sorts[input.sort], status: input.status };
    const page = await listAgents(db, { ...query, organizationId: organization.id });
    const now = clock.now();
    return toPageView(page, input, (agent) => toAgentView(agent, now));
  },
});

export const agentCreate = organizationOperation({
  name: 'agent.create',
  doc: 'Create an on-premise agent; only this response contains its key',
  route: {
    method: 'POST',
    path: '/organizations/{organization}/agents',
    made: '/organizations/{organization}/agents/{name}',
  },
  permission: 'agent.manage',
  input: z.strictObject({
    ...inOrganization,
    name: fields.slug.clone().register(surfaces, {
      control: nameControl(
        'For example the place where it runs: head-office. Lower-case letters, digits and hyphens.',
        slugAttributes,
      ),
    }),
  }),
  output: agentViewSchema
    .extend({ key: z.string().describe('Shown only once') })
    .meta({ id: 'CreatedAgent' }),
  target: ({ organization, name }) => target({ organization, agent: name }),
  async run({ name }, { organization, actor }, ports) {
    const id = `agent_${randomBase62(16)}`;
    const made = { id, organizationId: organization.id, name, createdAt: ports.clock.now() };
    const createdBy = actorName(actor);
    if (!(await insertAgent(ports.db, { ...made, createdBy }))) {
      throw conflict(`an agent ${organization.name}/${name} already exists`);
    }
    const owner = { type: 'agent', agentId: id } as const;
    const chosen = { name, owner, scopes: [], expiresAt: undefined, createdBy };
    const { key } = await createKey(chosen, ports);
    return { ...toAgentView(await ownAgent(organization.name, name, ports), made.createdAt), key };
  },
});

export const agentRead = organizationOperation({
  name: 'agent.read',
  doc: 'Read an agent with its keys and the servers that use it',
  route: { method: 'GET', path: agentPath },
  permission: 'agent.read',
  input: z.strictObject(ofAgent),
  output: agentViewSchema
    .extend({ keys: z.array(keyViewSchema), servers: z.array(serverViewSchema) })
    .meta({ id: 'AgentWithKeys' }),
  async run(input, { organization }, { db, clock }) {
    const agent = await ownAgent(organization.name, input.agent, { db });
    const now = clock.now();
    const all = { organizationId: organization.id, agentId: agent.id, limit: 1000, offset: 0 };
    const keys = { ...all, sort: 'createdAt', descending: true, now } as const;
    const servers = { ...all, sort: 'name', descending: false } as const;
    const names = new Map([[agent.id, agent.name]]);
    return {
      ...toAgentView(agent, now),
      keys: (await listKeys(db, keys)).items.map((key) => toKeyView(key, now)),
      servers: (await listServers(db, servers)).items.map((server) => toServerView(server, names)),
    };
  },
});

export const agentRevoke = organizationOperation({
  name: 'agent.revoke',
  doc: 'Revoke an agent and all its keys immediately; this cannot be undone',
  route: { method: 'DELETE', path: agentPath },
  permission: 'agent.manage',
  input: z.strictObject(ofAgent),
  output: agentViewSchema,
  target,
  async run(input, { organization }, ports) {
    const { id } = await ownAgent(organization.name, input.agent, ports);
    const now = ports.clock.now();
    if (!(await revokeAgent(ports.db, id, now))) throw conflict('the agent is already revoked');
    return toAgentView(await ownAgent(organization.name, input.agent, ports), now);
  },
});

export const agentOperations: readonly Operation[] = [
  agentList,
  agentCreate,
  agentRead,
  agentRevoke,
  agentKeyCreate,
  agentKeyRevoke,
];

/** `ORG/NAME` of an agent that need not exist. */
const newAgent: Positional = {
  usage: 'ORG/NAME',
  async read(text, { stores }) {
    const { organization, name } = splitPath(text);
    await namedOrganization(organization, stores);
    return { organization, name };
  },
};

const agentArgument: Positional = {
  usage: 'ORG/NAME',
  async read(text, { stores }) {
    const { organization, name: agent } = splitPath(text);
    await requireAgent({ organization, name: agent }, stores);
    return { organization, agent };
  },
};

/** @throws {CommandError} when there is no such agent */
export async function requireAgent(
  at: { readonly organization: string; readonly name: string },
  stores: Stores,
): Promise<void> {
  const { id: organizationId } = await namedOrganization(at.organization, stores);
  if (await findAgentByName(stores.db, at.organization, at.name)) return;
  const { items } = await listAgents(stores.db, { organizationId, ...firstNames });
  const path = `${at.organization}/${at.name}`;
  const create = `latchkey-server agent create ${path}`;
  throw new CommandError(`there is no agent ${path}`, askedFor(at, items) ?? create);
}

const activeAgent: Positional = {
  usage: 'ORG/NAME',
  async read(id, { stores }) {
    if (id.includes('/')) {
      const { organization, name } = splitPath(id);
      await namedOrganization(organization, stores);
      return { organization, agent: name };
    }
    const agent = await findAgent(stores.db, id);
    if (agent && agent.revokedAt === undefined) {
      return { organization: agent.organization, agent: agent.name };
    }
    throw new CommandError(`there is no active agent ${id}`, 'latchkey-server agent list ORG');
  },
};

export const agentCommands: readonly Command[] = [
  command(agentCreate, {
    words: 'agent create',
    positionals: [newAgent],
    doc: 'create an on-premise agent; its pk_live_ key is shown once',
    prints: ['id', 'name', 'key'],
    secret: 'key',
    conflict: (given) =>
      `choose another name, or create another key for this agent: latchkey-server agent create-key ${organizationIn(given)}/${String(given['name'])}`,
  }),
  command(agentKeyCreate, {
    words: 'agent create-key',
    positionals: [agentArgument],
    doc: 'create another key for an agent, shown once; older keys work until they are revoked',
    prints: ['id', 'name', 'key'],
    secret: 'key',
  }),
  listCommand(agentList, {
    words: 'agent list',
    positionals: [organizationArgument],
    doc: 'list on-premise agents',
    prints: [
      'id',
      'name',
      { key: 'keyHint' },
      'createdAt',
      'lastUsedAt',
      { expires_at: () => null },
      'revokedAt',
      { online: ({ isOnline }) => (isOnline ? 'yes' : 'no') },
    ],
    empty: 'no agents yet: latchkey-server agent create ORG/NAME',
  }),
  command(agentRevoke, {
    words: 'agent revoke',
    positionals: [activeAgent],
    doc: 'revoke an agent and its keys immediately',
    prints: ['id', 'revokedAt'],
  }),
];
