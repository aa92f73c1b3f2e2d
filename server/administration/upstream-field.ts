import { z } from 'zod';

import type { UpstreamKind } from '#organizations/server-record';
import type { Actor } from './actor.ts';
import type { AdministrationPorts } from './administration-ports.ts';
import { invalidField } from './administration-refusal.ts';
import { fields } from './fields.ts';

const upstreamUrl = z
  .string()
  .max(2000)
  .superRefine((text, context) => {
    const problem = urlProblem(text);
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
  })
  .transform((text) => new URL(text).href);

/** Where the calls of a server go. A program of this machine is the operator's to configure, so it is no choice here. */
export const upstreamField = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('demo') }),
  z.strictObject({ kind: z.literal('http'), url: upstreamUrl }),
  z.strictObject({ kind: z.literal('agent'), agent: fields.agent }),
]);

/** What is wrong with the URL of an upstream, in words that go behind the field's name. */
export function urlProblem(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return 'is not an http or https URL';
  if (url.username || url.password || url.hash) return 'may hold no user, password or fragment';
  return undefined;
}

/**
 * The upstream that was chosen, its agent found. A URL of anybody but the operator leads to the public internet only.
 *
 * @throws {AdministrationRefusal} `invalid` when the organization has no such agent in force
 */
export async function chosenUpstream(
  upstream: z.output<typeof upstreamField>,
  { organization, actor }: { organization: string; actor: Actor },
  { agents }: Pick<AdministrationPorts, 'agents'>,
): Promise<UpstreamKind> {
  switch (upstream.kind) {
    case 'demo':
      return upstream;
    case 'http':
      return { ...upstream, ...(actor.type !== 'operator' && { publicOnly: true }) };
    case 'agent': {
      const agent = await agents.byName(organization, upstream.agent);
      if (agent && agent.revokedAt === undefined) return { kind: 'agent', agentId: agent.id };
      throw invalidField('upstream.agent', 'is not an agent of this organization');
    }
  }
}

/** Whether a choice names the URL that a server has: whoever vouched for that went on doing so. */
export function staysVouched(before: UpstreamKind, chosen: UpstreamKind): boolean {
  if (before.kind !== 'http' || chosen.kind !== 'http') return false;
  return new URL(before.url).href === chosen.url && chosen.publicOnly === true;
}
