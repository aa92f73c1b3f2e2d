import { agentKeyCreate as createKey } from '#administration/agent-key-operations';
import {
  agentCreate as create,
  agentList as list,
  agentRevoke as revoke,
} from '#administration/agent-operations';
import { json } from '#config/option';
import { CommandError } from '#config/usage-error';
import { administer, administerList } from './administer.ts';
import type { Command } from './command.ts';
import { findOrganization, splitPath } from './named-server.ts';
import { printMade, printRows } from './print.ts';

export const agentCreate: Command = {
  words: 'agent create',
  positionals: ['ORG/NAME'],
  options: [json],
  doc: 'make an on-premise agent; its pk_live_ key is shown once',
  async run(input, { out, ...ports }) {
    const { organization, name } = splitPath(input.positionals[0] ?? '');
    await findOrganization(organization, ports.stores);
    const { id, key } = await administer(create, { organization, name }, ports);
    printMade({ id, name, key }, { json: input.flag('json'), secret: 'key', out });
  },
};

export const agentCreateKey: Command = {
  words: 'agent create-key',
  positionals: ['ORG/NAME'],
  options: [{ name: 'name', value: 'N', doc: 'what the key is called' }, json],
  doc: 'give an agent one more key, shown once; the older ones count until they are revoked',
  async run(input, { out, ...ports }) {
    const { organization, name: agent } = splitPath(input.positionals[0] ?? '');
    await findOrganization(organization, ports.stores);
    if (!(await ports.stores.agents.byName(organization, agent))) {
      const path = `${organization}/${agent}`;
      throw new CommandError(`there is no agent ${path}`, `latchkey-server agent create ${path}`);
    }
    const chosen = input.text('name');
    const fields = { organization, agent, ...(chosen !== undefined && { name: chosen }) };
    const { id, name, key } = await administer(createKey, fields, ports);
    printMade({ id, name, key }, { json: input.flag('json'), secret: 'key', out });
  },
};

export const agentList: Command = {
  words: 'agent list',
  positionals: ['ORG'],
  options: [json],
  doc: 'list on-premise agents',
  async run(input, { out, ...ports }) {
    const { name } = await findOrganization(input.positionals[0] ?? '', ports.stores);
    const agents = await administerList(list, { organization: name }, ports);
    const rows = agents.map((agent) => ({
      id: agent.id,
      name: agent.name,
      key: agent.keyHint,
      created_at: agent.createdAt,
      last_used_at: agent.lastUsedAt,
      expires_at: null,
      revoked_at: agent.revokedAt,
    }));
    const empty = 'no agents yet: latchkey-server agent create ORG/NAME';
    printRows(rows, { json: input.flag('json'), empty, out });
  },
};

export const agentRevoke: Command = {
  words: 'agent revoke',
  positionals: ['ID'],
  options: [json],
  doc: 'revoke an agent and its keys at once',
  async run(input, { out, ...ports }) {
    const [id = ''] = input.positionals;
    const agent = await ports.stores.agents.byId(id);
    if (!agent || agent.revokedAt !== undefined) {
      throw new CommandError(`there is no active agent ${id}`, 'latchkey-server agent list ORG');
    }
    const { organization, name } = agent;
    await administer(revoke, { organization, agent: name }, ports);
    printMade({ id, revoked_at: ports.clock.now() }, { json: input.flag('json'), out });
  },
};
