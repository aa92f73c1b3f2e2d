import { z } from 'zod';

import type { UpstreamKind } from '#organizations/server-record';
import { headerNameProblem, headerValueProblem, mostHeaders } from '#upstream-access/fixed-headers';
import type { Actor } from './actor.ts';
import type { AdministrationPorts } from './administration-ports.ts';
import { invalidField } from './administration-refusal.ts';
import { fields } from './fields.ts';

const upstreamUrl = textWithout(urlProblem, z.string().max(2000)).transform(
  (text) => new URL(text).href,
);

/** A fixed header as somebody enters it. */
export const headerFields = {
  name: textWithout(headerNameProblem)
    .transform((name) => name.toLowerCase())
    .describe('In any case; not one that HTTP, MCP or Latchkey itself sets'),
  value: textWithout(headerValueProblem).describe(
    'At most 4096 printable ASCII characters; shown to nobody again',
  ),
};

const headersField = z
  .array(z.strictObject(headerFields))
  .max(mostHeaders)
  .superRefine((headers, context) => {
    const names = headers.map(({ name }) => name);
    if (new Set(names).size === names.length) return;
    context.addIssue({ code: 'custom', message: 'name one header twice' });
  });

const intoPrivateNetwork =
  'leads into a private network: use an agent there, or ask whoever runs this server to allow its host by --outbound-host';

/** Whose upstream it becomes. */
export interface UpstreamPlace {
  readonly organization: string;
  readonly actor: Actor;
  /** Where the calls went until now. */
  readonly before?: UpstreamKind;
}

/** Where the calls of a server go. A program of this machine is the operator's to configure, so it is no choice here. */
export const upstreamField = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('demo') }),
  z.strictObject({
    kind: z.literal('http'),
    url: upstreamUrl,
    headers: headersField
      .optional()
      .describe('Sent with every request to it; those that it has for the same origin stay'),
  }),
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
 * The upstream that was chosen, its agent found. A URL of anybody but the operator leads to the public internet only,
 * unless it is the one that the server has already.
 *
 * @throws {AdministrationRefusal} `invalid` when the organization has no such agent in force, or the URL leads elsewhere
 */
export async function chosenUpstream(
  upstream: z.output<typeof upstreamField>,
  { organization, actor, before }: UpstreamPlace,
  { agents, upstreamSetup }: Pick<AdministrationPorts, 'agents' | 'upstreamSetup'>,
): Promise<UpstreamKind> {
  switch (upstream.kind) {
    case 'demo':
      return upstream;
    case 'http': {
      const { kind, url } = upstream;
      if (actor.type === 'operator') return { kind, url };
      const chosen = { kind, url, publicOnly: true } as const;
      const isNew = !before || !staysVouched(before, chosen);
      if (isNew && upstreamSetup.isForbidden(new URL(upstream.url))) {
        throw invalidField('upstream.url', intoPrivateNetwork);
      }
      return chosen;
    }
    case 'agent': {
      const agent = await agents.byName(organization, upstream.agent);
      if (agent && agent.revokedAt === undefined) return { kind: 'agent', agentId: agent.id };
      throw invalidField('upstream.agent', 'is not an agent of this organization');
    }
  }
}

/** A text that `problemOf` finds nothing wrong with. */
function textWithout(problemOf: (text: string) => string | undefined, text = z.string()) {
  return text.superRefine((typed, context) => {
    const problem = problemOf(typed);
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
  });
}

/** Whether a choice names the URL that a server has: whoever vouched for that went on doing so. */
export function staysVouched(before: UpstreamKind, chosen: UpstreamKind): boolean {
  if (before.kind !== 'http' || chosen.kind !== 'http') return false;
  return new URL(before.url).href === chosen.url && chosen.publicOnly === true;
}
