import { z } from 'zod';

import type { Agent } from '#organizations/agent-store';
import type { AdministrationPorts } from './administration-ports.ts';
import { notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';

/** The fields that name one agent, and its path. */
export const ofAgent = { organization: fields.organization, agent: fields.agent };
export const agentPath = '/organizations/{organization}/agents/{agent}';

/** An agent as every surface shows it; `keyHint` is of its newest key. */
export const shownAgent = z
  .object({
    id: z.string(),
    name: z.string(),
    keyHint: z.string().nullable().describe('Prefix and last four characters of the newest key'),
    createdAt: fields.at,
    lastUsedAt: fields.maybeAt,
    revokedAt: fields.maybeAt,
  })
  .meta({ id: 'Agent' });

/** Times in seconds since 1970, `null` for what never was. */
export type ShownAgent = z.output<typeof shownAgent>;

/** An agent as it is kept, as every surface shows it. */
export function showAgent(agent: Agent): ShownAgent {
  return {
    id: agent.id,
    name: agent.name,
    keyHint: agent.keyHint ?? null,
    createdAt: agent.createdAt,
    lastUsedAt: agent.lastUsedAt ?? null,
    revokedAt: agent.revokedAt ?? null,
  };
}

/** An agent of this organization. @throws {AdministrationRefusal} `not_found` */
export async function ownAgent(
  organization: string,
  name: string,
  { agents }: Pick<AdministrationPorts, 'agents'>,
): Promise<Agent> {
  const agent = await agents.byName(organization, name);
  if (agent) return agent;
  throw notFound('agent');
}
