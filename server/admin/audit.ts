import { setImmediate as afterOtherWork } from 'node:timers/promises';

import { z } from 'zod';

import { fields, wholeNumber, words } from './fields.ts';
import { organizationOperation, personalOperation, type Operation } from './operation.ts';
import { forbidden } from './refusal.ts';
import { nearest } from 'latchkey-mcp/suggest';
import { exportAudit } from '#audit/export-audit';
import { auditSentences } from '#audit/sentences';
import { listAuditActions, listAuditEvents, type StoredAuditEvent } from '#db/audit';
import { findMember, findUserByEmail } from '#db/people';
import { json } from '#config/option';
import { type Option } from '#model/option';
import type { Input } from '#config/read-options';
import { UsageError } from '#config/usage-error';
import { administer, type Command } from './command.ts';
import { type Stores, namedOrganization, requireUser } from './positionals.ts';
import { printRows } from './print.ts';
import { viewOf } from './views.ts';

const mostALimit = 200;
const path = '/organizations/{organization}/audit';

const auditFilter = {
  actor: words(200).optional().describe('For example `user:…`, `client:…` or `operator`'),
  action: words(100).optional().describe('For example `key.create`'),
  target: words(400).optional(),
  outcome: z.enum(['done', 'refused']).optional(),
  from: wholeNumber().optional().describe('Events at or after this time, in seconds since 1970'),
  until: wholeNumber().optional().describe('Events before this time, in seconds since 1970'),
};

const auditEventViewSchema = z
  .object({
    id: z.string(),
    at: fields.at,
    actor: z.string(),
    action: z.string(),
    target: z.string().nullable(),
    address: z.string().nullable(),
    requestId: z.string().nullable(),
    outcome: z.enum(['done', 'refused']),
    times: z.int().describe('The number of repetitions, if they are counted'),
  })
  .meta({ id: 'AuditEvent' });

/** The view of an entry: on pages, in the API and in commands. */
export type AuditEventView = z.output<typeof auditEventViewSchema>;

const limitField = z.coerce.number().int().min(1).max(mostALimit).default(50);

export const auditRead = organizationOperation({
  name: 'audit.read',
  doc: 'List the audit events of an organization, newest first',
  route: { method: 'GET', path },
  permission: 'audit.read',
  input: z.strictObject({
    organization: fields.organization,
    ...auditFilter,
    after: z
      .string()
      .regex(/^\d{1,12}-[\w]{1,64}$/, 'is not a value from an earlier response')
      .optional()
      .describe('The `next` value of the previous response'),
    limit: limitField,
  }),
  output: z.object({
    items: z.array(auditEventViewSchema),
    next: z.string().nullable().describe('The `after` value of the next page'),
    actions: z.array(z.string()).describe('All actions that occur in the log'),
  }),
  async run({ after, limit, ...filter }, { organization }, { db }) {
    const [at = '', id = ''] = after?.split('-') ?? [];
    const found = await listAuditEvents(db, {
      ...filter,
      organization: organization.name,
      after: after === undefined ? undefined : { at: Number(at), id },
      limit: limit + 1,
    });
    const events = found.slice(0, limit);
    const last = found.length > limit ? events.at(-1) : undefined;
    const actions = await listAuditActions(db, organization.name);
    return {
      items: events.map(toAuditEventView),
      next: last ? `${last.at}-${last.id}` : null,
      actions,
    };
  },
});

/** Lists the events in no organization's log, because they concern the whole installation or an unknown actor. */
const installationRead = personalOperation({
  name: 'audit.read',
  doc: 'List the audit events that belong to no organization, newest first',
  onlyReads: true,
  input: z.strictObject({ ...auditFilter, limit: limitField }),
  output: z.object({ items: z.array(auditEventViewSchema) }),
  async run(filter, { actor }, { db }) {
    if (actor.type !== 'operator') throw forbidden('only the operator can read these events');
    const events = await listAuditEvents(db, { ...filter, organization: null });
    return { items: events.map(toAuditEventView) };
  },
});

/** Authorizes and records an export. The caller streams the data from `exportAudit`. */
export const auditExport = organizationOperation({
  name: 'audit.export',
  doc: 'Export the audit log of an organization as a file',
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

function toAuditEventView(event: StoredAuditEvent): z.output<typeof auditEventViewSchema> {
  return viewOf(auditEventViewSchema, { ...event, times: event.times ?? 1 });
}

export const auditOperations: readonly Operation[] = [auditRead, auditExport];

const narrowed: readonly Option[] = [
  {
    name: 'actor',
    value: 'WHO',
    doc: 'an e-mail address, user:…, client:…, key:…, operator, system or anonymous',
  },
  { name: 'action', value: 'WHAT', doc: 'the action, for example key.create' },
  { name: 'target', value: 'ON', doc: 'the target, for example key:key_…' },
  { name: 'outcome', value: 'OUTCOME', doc: 'the outcome: done or refused' },
  { name: 'from', value: 'DAY', doc: 'the first day, for example 2026-11-20' },
  { name: 'until', value: 'DAY', doc: 'the last day' },
];
const outcomes = ['done', 'refused'] as const;
const daySeconds = 86_400;

const listCommand: Command = {
  words: 'audit list',
  positionals: ['[ORG]'],
  options: [
    ...narrowed,
    { name: 'limit', value: 'COUNT', fallback: '50', doc: 'the number of events, up to 200' },
    json,
  ],
  doc: 'list the audit events of an organization, newest first; without ORG, those that belong to none',
  async run(input, { out, ...ports }) {
    const [name] = input.positionals;
    const wanted = { ...(await filterOf(input, ports.stores)), limit: input.must('limit') };
    const { items, ...rest } = await (name === undefined
      ? administer(installationRead, wanted, ports)
      : administer(
          auditRead,
          { ...wanted, organization: (await namedOrganization(name, ports.stores)).name },
          ports,
        ));
    const rows = items.map((event) => ({
      happened_at: event.at,
      actor: event.actor,
      action: event.action,
      target: event.target,
      address: event.address,
      outcome: event.outcome,
      times: event.times,
    }));
    const isJson = input.flag('json');
    printRows(rows, { json: isJson, empty: 'no matching events', out });
    if (isJson || rows.length > 0) return;
    const hint =
      unknownFilter(wanted, rest) ??
      (await strangePerson(input, ports.stores)) ??
      (await targetHint(wanted.target, ports.stores));
    if (hint !== undefined) out(`hint: ${hint}`);
  },
};

/** Why nothing matches, if the filter has an unknown action or actor. */
function unknownFilter(
  { action, actor }: { action?: string | undefined; actor?: string | undefined },
  { actions = [] }: { actions?: readonly string[] },
): string | undefined {
  if (action !== undefined && !actions.includes(action) && !Object.hasOwn(auditSentences, action)) {
    const meant = nearest(action, Object.keys(auditSentences));
    const ask = meant === undefined ? '' : `; did you mean ${meant}?`;
    return `no event here has the action ${action}${ask}`;
  }
  if (
    actor === undefined ||
    /^(?:user|client|key):|^(?:operator|system|scim|anonymous)$/.test(actor)
  )
    return undefined;
  return `--actor '${actor}' is neither an e-mail address nor an actor such as key:key_… or operator`;
}

/** A hint if the actor who was named by address is not a member: the log has only what they did as a member. */
async function strangePerson(input: Input, stores: Stores): Promise<string | undefined> {
  const [name] = input.positionals;
  const who = input.text('actor') ?? '';
  if (name === undefined || !who.includes('@')) return undefined;
  const { id } = await namedOrganization(name, stores);
  const isMember = await findMember(stores.db, id, (await requireUser(who, stores)).id);
  return isMember ? undefined : `${who} is not a member of ${name}`;
}

/** How to name a person as a target, if an address was given. */
async function targetHint(target = '', { db }: Pick<Stores, 'db'>): Promise<string | undefined> {
  if (!target.includes('@')) return undefined;
  const user = await findUserByEmail(db, target);
  return `people are targets by their ID: --target user:${user?.id ?? 'ID'}`;
}

const exportCommand: Command = {
  words: 'audit export',
  positionals: ['ORG'],
  options: [
    ...narrowed,
    { name: 'csv', doc: 'print CSV instead of one JSON document per line' },
    { ...json, doc: 'print one JSON document per line (default)' },
  ],
  doc: 'print the audit log of an organization, or a part of it',
  endsWithReader: true,
  async run(input, { out, ...ports }) {
    const { name: organization } = await namedOrganization(
      input.positionals[0] ?? '',
      ports.stores,
    );
    const format = input.flag('csv') ? 'csv' : 'jsonl';
    const filter = await filterOf(input, ports.stores);
    await administer(auditExport, { organization, ...filter, format }, ports);
    const query = { organization, ...filter };
    for await (const piece of exportAudit(query, format, ports.stores)) {
      piece.trimEnd().split(/\r?\n/).forEach(out);
      await afterOtherWork();
    }
  },
};

/**
 * @throws {UsageError}
 * @throws {CommandError} if no person has the given address
 */
async function filterOf(input: Input, stores: Stores) {
  const typed = input.text('outcome');
  const outcome = outcomes.find((known) => known === typed);
  if (typed !== undefined && !outcome) {
    throw new UsageError(`--outcome '${typed}' is unknown`, `use ${outcomes.join(' or ')}`);
  }
  const until = day('until', input);
  const who = input.text('actor');
  return {
    actor: who?.includes('@') ? `user:${(await requireUser(who, stores)).id}` : who,
    action: input.text('action'),
    target: input.text('target'),
    outcome,
    from: day('from', input),
    until: until === undefined ? undefined : until + daySeconds,
  };
}

function day(name: string, input: Input): number | undefined {
  const text = input.text(name);
  if (text === undefined) return undefined;
  const at = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(at))
    throw new UsageError(`--${name} '${text}' is not a date such as 2026-11-20`);
  return at / 1000;
}

export const auditCommands: readonly Command[] = [listCommand, exportCommand];
