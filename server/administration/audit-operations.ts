import { z } from 'zod';

import type { KeptEvent } from '#audit/audit-log';
import { fields, wholeNumber, words } from './fields.ts';
import { organizationOperation } from './operation.ts';

const mostALimit = 200;
const path = '/organizations/{organization}/audit';

/** By what an audit log is narrowed down. */
export const auditFilter = {
  actor: words(200).optional().describe('As `user:…`, `client:…`, `operator`'),
  action: words(100).optional().describe('As `key.create`'),
  target: words(400).optional(),
  outcome: z.enum(['done', 'refused']).optional(),
  from: wholeNumber().optional().describe('Not before, in seconds since 1970'),
  until: wholeNumber().optional().describe('Before, in seconds since 1970'),
};

const shownEvent = z
  .object({
    id: z.string(),
    at: fields.at,
    actor: z.string(),
    action: z.string(),
    target: z.string().nullable(),
    address: z.string().nullable(),
    requestId: z.string().nullable(),
    outcome: z.enum(['done', 'refused']),
    times: z.int().describe('How often, where repetitions are counted'),
  })
  .meta({ id: 'AuditEvent' });

export const auditRead = organizationOperation({
  name: 'audit.read',
  doc: 'Read what happened in an organization, the newest first',
  route: { method: 'GET', path },
  permission: 'audit.read',
  input: z.strictObject({
    organization: fields.organization,
    ...auditFilter,
    after: z
      .string()
      .regex(/^\d{1,12}-[\w]{1,64}$/, 'is not what an earlier answer said')
      .optional()
      .describe('The `next` of the answer before'),
    limit: z.coerce.number().int().min(1).max(mostALimit).default(50),
  }),
  output: z.object({
    items: z.array(shownEvent),
    next: z.string().nullable().describe('What `after` must be for those that follow'),
    actions: z.array(z.string()).describe('Every action that occurs'),
  }),
  async run({ after, limit, ...filter }, { organization }, { auditReader }) {
    const [at = '', id = ''] = after?.split('-') ?? [];
    const found = await auditReader.read({
      ...filter,
      organization: organization.name,
      after: after === undefined ? undefined : { at: Number(at), id },
      limit: limit + 1,
    });
    const events = found.slice(0, limit);
    const last = found.length > limit ? events.at(-1) : undefined;
    const actions = await auditReader.actions(organization.name);
    return { items: events.map(show), next: last ? `${last.at}-${last.id}` : null, actions };
  },
});

/** What leaves is streamed by whoever asks, from `exportAudit`; this says that it may, and writes it down. */
export const auditExport = organizationOperation({
  name: 'audit.export',
  doc: 'Take the record of an organization away as a file',
  permission: 'audit.read',
  input: z.strictObject({
    organization: fields.organization,
    ...auditFilter,
    format: z.enum(['csv', 'jsonl']),
  }),
  output: z.object({}),
  target: ({ format }) => format,
  run: async () => ({}),
});

function show(event: KeptEvent): z.output<typeof shownEvent> {
  const { id, at, actor, action, target, address, requestId, outcome, times } = event;
  return {
    id,
    at,
    actor,
    action,
    target: target ?? null,
    address: address ?? null,
    requestId: requestId ?? null,
    outcome,
    times: times ?? 1,
  };
}
