import { z } from 'zod';

import { ownsEveryOrganization } from '#db/organizations';
import { listMemberships } from '#db/people';
import { deleteOutboundHost, insertOutboundHost, listOutboundHosts } from '#db/outbound-hosts';
import { isRecentProof } from '#accounts/sessions';
import { hostProblem } from '#outbound/allowed-hosts';
import { command, type Command, listCommand } from './command.ts';
import { fields, surfaces, words, identifier } from './fields.ts';
import {
  type Actor,
  actorName,
  type AdministrationPorts,
  checkEntry,
  openMemberships,
  personalOperation,
  type Operation,
  type WithDb,
} from './operation.ts';
import { textArgument } from './positionals.ts';
import { AdministrationRefusal, conflict, invalidField, notFound } from './refusal.ts';
import { viewOf } from './views.ts';

// The hosts in private networks that requests may reach. They concern the whole installation, so only the operator changes them: at the
// command line, or as a person who owns every organization.

const path = '/outbound-hosts';
const mostHosts = 200;

/**
 * Admits the operator, and a person who owns every organization and is signed in as each of them requires.
 *
 * @throws {AdministrationRefusal} `not_found` for everyone else, who must not learn of the list; `forbidden`
 */
async function checkOperator(actor: Actor, { db }: WithDb): Promise<void> {
  if (actor.type === 'operator') return;
  if (!(await ownsEveryOrganization(db, actor.userId))) throw notFound('page');
  const memberships = await openMemberships(actor, { db });
  if (memberships.length < (await listMemberships(db, actor.userId)).length) throw notFound('page');
  for (const membership of memberships) await checkEntry(actor, membership, { db });
}

/** An unattended browser, or a token, must not open the private network. @throws {AdministrationRefusal} `proof_old` */
function checkProof(actor: Actor, { clock }: Pick<AdministrationPorts, 'clock'>): void {
  if (actor.type === 'operator') return;
  const { provedAt } = actor;
  if (provedAt !== undefined && isRecentProof({ createdAt: provedAt }, clock.now())) return;
  throw new AdministrationRefusal('proof_old', 'this requires a recent sign-in');
}

const outboundHostSchema = z
  .object({
    host: z.string(),
    note: z.string(),
    createdBy: z.string(),
    createdAt: fields.at,
  })
  .meta({ id: 'OutboundHost' });

export type OutboundHostView = z.output<typeof outboundHostSchema>;

export const outboundList = personalOperation({
  name: 'outbound.list',
  doc: 'List the hosts and ranges in private networks that were allowed while the server ran',
  route: { method: 'GET', path },
  input: z.strictObject({}),
  output: z.object({ items: z.array(outboundHostSchema) }),
  async run(_input, { actor }, ports) {
    await checkOperator(actor, ports);
    const items = await listOutboundHosts(ports.db);
    return { items: items.map((item) => viewOf(outboundHostSchema, item)) };
  },
});

const hostField = z
  .string()
  .trim()
  .toLowerCase()
  .min(1)
  .max(260)
  .superRefine((host, context) => {
    const problem = hostProblem(host);
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
  });

export const outboundAllow = personalOperation({
  name: 'outbound.allow',
  doc: 'Allow requests of all organizations to a host or a range of addresses in a private network, on all nodes within a second',
  route: { method: 'POST', path, made: path },
  input: z.strictObject({
    host: hostField
      .describe('`mcp.internal`, `mcp.internal:8443` or `10.20.0.0/16`')
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Host or range',
          subject: 'The host',
          help: 'mcp.internal for all its ports, mcp.internal:8443 for one, or a range of addresses such as 10.20.0.0/16.',
          attributes: { ...identifier, maxlength: '260' },
        },
      }),
    note: words(200)
      .default('')
      .describe('What it is for')
      .register(surfaces, {
        option: { value: 'TEXT', doc: 'what it is for' },
        control: {
          kind: 'text',
          label: 'Note',
          subject: 'The note',
          help: 'What it is for.',
          attributes: { maxlength: '200', autocomplete: 'off' },
        },
      }),
  }),
  output: outboundHostSchema,
  target: ({ host }) => host,
  async run({ host, note }, { actor }, ports) {
    await checkOperator(actor, ports);
    checkProof(actor, ports);
    const made = { host, note, createdBy: actorName(actor), createdAt: ports.clock.now() };
    switch (await insertOutboundHost(ports.db, made, mostHosts)) {
      case 'done':
        return made;
      case 'known':
        throw invalidField('host', 'is allowed already');
      case 'full':
        throw conflict(`there are already ${mostHosts} entries: remove one first`);
    }
  },
});

export const outboundRemove = personalOperation({
  name: 'outbound.remove',
  doc: 'No longer allow requests to a host or range, on all nodes within a second; those in progress go on',
  route: { method: 'POST', path: `${path}/remove` },
  input: z.strictObject({ host: z.string().trim().toLowerCase().max(260) }),
  output: z.object({ host: z.string() }),
  target: ({ host }) => host,
  async run({ host }, { actor }, ports) {
    await checkOperator(actor, ports);
    checkProof(actor, ports);
    if (!(await deleteOutboundHost(ports.db, host))) throw notFound('host');
    return { host };
  },
});

export const outboundOperations: readonly Operation[] = [
  outboundList,
  outboundAllow,
  outboundRemove,
];

const hostArgument = textArgument('HOST|RANGE', 'host');

export const outboundCommands: readonly Command[] = [
  listCommand(outboundList, {
    words: 'outbound list',
    doc: 'list the hosts and ranges in private networks that were allowed while the server ran',
    prints: ['host', 'note', 'createdBy', 'createdAt'],
    empty: 'none but those of start --outbound-host',
  }),
  command(outboundAllow, {
    words: 'outbound allow',
    positionals: [hostArgument],
    doc: 'allow requests to a host or a range of addresses in a private network, without a restart',
    prints: ['host', 'note', 'createdAt'],
  }),
  command(outboundRemove, {
    words: 'outbound remove',
    positionals: [hostArgument],
    doc: 'no longer allow requests to a host or range',
    prints: ['host', { removed_at: (_, { now }) => now }],
  }),
];
