import { json } from '#config/option';
import { CommandError } from '#config/usage-error';
import { createKey } from '#credentials/create-key';
import { randomBase62 } from '#credentials/secret-format';
import type { Command } from './command.ts';
import { findOrganization, splitPath } from './named-server.ts';
import { printMade, printRows } from './print.ts';

export const agentCreate: Command = {
  words: 'agent create',
  positionals: ['ORG/NAME'],
  options: [json],
  doc: 'make an on-premise agent; its pk_live_ key is shown once',
  async run(input, { stores, clock, out }) {
    const { organization, name } = splitPath(input.positionals[0] ?? '');
    const owner = await findOrganization(organization, stores);
    const agentId = `agent_${randomBase62(16)}`;
    const createdAt = clock.now();
    if (!(await stores.agents.add({ id: agentId, organizationId: owner.id, name, createdAt }))) {
      throw new CommandError(`there is an agent ${organization}/${name} already`);
    }
    const made = {
      name,
      owner: { type: 'agent', agentId } as const,
      scopes: [],
      expiresAt: undefined,
    };
    const { key } = await createKey(made, { keys: stores.keys, clock });
    printMade({ id: agentId, name, key }, { json: input.flag('json'), secret: 'key', out });
  },
};

export const agentList: Command = {
  words: 'agent list',
  positionals: ['ORG'],
  options: [json],
  doc: 'list on-premise agents',
  async run(input, { stores, out }) {
    const { name } = await findOrganization(input.positionals[0] ?? '', stores);
    const agents = await stores.agents.list(name);
    const rows = agents.map((agent) => ({
      id: agent.id,
      name: agent.name,
      key: agent.keyHint ?? null,
      created_at: agent.createdAt,
      last_used_at: agent.lastUsedAt ?? null,
      expires_at: null,
      revoked_at: agent.revokedAt ?? null,
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
  async run(input, { stores, clock, out }) {
    const [id = ''] = input.positionals;
    if (!(await stores.agents.revoke(id, clock.now()))) {
      throw new CommandError(`there is no active agent ${id}`, 'latchkey-server agent list ORG');
    }
    printMade({ id, revoked_at: clock.now() }, { json: input.flag('json'), out });
  },
};
