import { z } from 'zod';

import { createKey } from '#credentials/create-key';
import { randomBase62 } from '#credentials/secret-format';
import { AdministrationRefusal } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { pageFields, pageOf, pageQuery, shownPage } from './paging.ts';
import { agentPath, ofAgent, ownAgent, showAgent, shownAgent } from './shown-agent.ts';
import { showKey, shownKey } from './shown-key.ts';
import { showServer, shownServer } from './shown-server.ts';

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
  output: pageOf(shownAgent),
  async run(input, { organization }, { agentDirectory }) {
    const query = { ...pageQuery(input), sort: sorts[input.sort], status: input.status };
    const page = await agentDirectory.page({ ...query, organizationId: organization.id });
    return shownPage(page, input, showAgent);
  },
});

export const agentCreate = organizationOperation({
  name: 'agent.create',
  doc: 'Make an on-premise agent; its key is in this answer and never again',
  route: {
    method: 'POST',
    path: '/organizations/{organization}/agents',
    made: '/organizations/{organization}/agents/{name}',
  },
  permission: 'agent.manage',
  input: z.strictObject({ ...inOrganization, name: fields.slug }),
  output: shownAgent
    .extend({ key: z.string().describe('Shown this once') })
    .meta({ id: 'CreatedAgent' }),
  target: ({ organization, name }) => target({ organization, agent: name }),
  async run({ name }, { organization }, ports) {
    const id = `agent_${randomBase62(16)}`;
    const made = { id, organizationId: organization.id, name, createdAt: ports.clock.now() };
    if (!(await ports.agents.add(made))) {
      const why = `there is an agent ${organization.name}/${name} already`;
      throw new AdministrationRefusal('conflict', why);
    }
    const owner = { type: 'agent', agentId: id } as const;
    const { key } = await createKey({ name, owner, scopes: [], expiresAt: undefined }, ports);
    return { ...showAgent(await ownAgent(organization.name, name, ports)), key };
  },
});

export const agentRead = organizationOperation({
  name: 'agent.read',
  doc: 'Read an agent with its keys and the servers that are bound to it',
  route: { method: 'GET', path: agentPath },
  permission: 'agent.read',
  input: z.strictObject(ofAgent),
  output: shownAgent
    .extend({ keys: z.array(shownKey), servers: z.array(shownServer) })
    .meta({ id: 'AgentWithKeys' }),
  async run(input, { organization }, { serverDirectory, keyDirectory, clock, ...ports }) {
    const agent = await ownAgent(organization.name, input.agent, ports);
    const now = clock.now();
    const all = { organizationId: organization.id, agentId: agent.id, limit: 1000, offset: 0 };
    const keys = { ...all, sort: 'createdAt', descending: true, now } as const;
    const servers = { ...all, sort: 'name', descending: false } as const;
    const names = new Map([[agent.id, agent.name]]);
    return {
      ...showAgent(agent),
      keys: (await keyDirectory.page(keys)).items.map((key) => showKey(key, now)),
      servers: (await serverDirectory.page(servers)).items.map((server) =>
        showServer(server, names),
      ),
    };
  },
});

export const agentRevoke = organizationOperation({
  name: 'agent.revoke',
  doc: 'Revoke an agent and every key of it, at once and for good',
  route: { method: 'DELETE', path: agentPath },
  permission: 'agent.manage',
  input: z.strictObject(ofAgent),
  output: shownAgent,
  target,
  async run(input, { organization }, ports) {
    const { id } = await ownAgent(organization.name, input.agent, ports);
    if (!(await ports.agents.revoke(id, ports.clock.now()))) {
      throw new AdministrationRefusal('conflict', 'the agent was revoked before');
    }
    return showAgent(await ownAgent(organization.name, input.agent, ports));
  },
});
