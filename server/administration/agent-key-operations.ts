import { z } from 'zod';

import { createKey } from '#credentials/create-key';
import { AdministrationRefusal, notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { agentPath, ofAgent, ownAgent } from './shown-agent.ts';
import { ownKey, showKey, shownKey } from './shown-key.ts';

export const agentKeyCreate = organizationOperation({
  name: 'agent.create-key',
  doc: 'Give an agent one more key, so that the older one can be replaced; both count meanwhile',
  route: { method: 'POST', path: `${agentPath}/keys`, made: agentPath },
  permission: 'agent.manage',
  input: z.strictObject({ ...ofAgent, name: fields.name.optional() }),
  output: shownKey
    .extend({ key: z.string().describe('Shown this once') })
    .meta({ id: 'CreatedAgentKey' }),
  target: (_, made) => made && `key:${made.id}`,
  async run({ agent: agentName, name = agentName }, { organization }, ports) {
    const agent = await ownAgent(organization.name, agentName, ports);
    if (agent.revokedAt !== undefined) {
      throw new AdministrationRefusal('conflict', 'the agent is revoked');
    }
    const owner = { type: 'agent', agentId: agent.id } as const;
    const { id, key } = await createKey({ name, owner, scopes: [], expiresAt: undefined }, ports);
    return { ...showKey(await ownKey(organization.name, id, ports), ports.clock.now()), key };
  },
});

export const agentKeyRevoke = organizationOperation({
  name: 'agent.revoke-key',
  doc: 'Revoke one key of an agent, at once and for good',
  route: { method: 'DELETE', path: `${agentPath}/keys/{keyId}` },
  permission: 'agent.manage',
  input: z.strictObject({ ...ofAgent, keyId: fields.keyId }),
  output: shownKey,
  target: ({ keyId }) => `key:${keyId}`,
  async run({ agent: agentName, keyId }, { organization }, ports) {
    await ownAgent(organization.name, agentName, ports);
    const key = await ownKey(organization.name, keyId, ports);
    if (key.agent !== agentName) throw notFound('key');
    if (!(await ports.keys.revoke(keyId, ports.clock.now()))) {
      throw new AdministrationRefusal('conflict', 'the key was revoked before');
    }
    return showKey(await ownKey(organization.name, keyId, ports), ports.clock.now());
  },
});
