import { auditExport as noteExport, auditRead } from '#administration/audit-operations';
import { exportAudit } from '#audit/export-audit';
import { json, type Option } from '#config/option';
import { UsageError } from '#config/usage-error';
import type { Input } from '#config/read-options';
import { administer } from './administer.ts';
import type { Command, Stores } from './command.ts';
import { findUser } from './find-user.ts';
import { findOrganization } from './named-server.ts';
import { printRows } from './print.ts';

const narrowed: readonly Option[] = [
  {
    name: 'actor',
    value: 'WHO',
    doc: 'an e-mail address, user:…, client:…, key:…, operator, nobody',
  },
  { name: 'action', value: 'WHAT', doc: 'as key.create' },
  { name: 'target', value: 'ON', doc: 'as key:key_…' },
  { name: 'outcome', value: 'O', doc: 'done or refused' },
  { name: 'from', value: 'DAY', doc: 'the first day, as 2026-11-20' },
  { name: 'until', value: 'DAY', doc: 'the last day' },
];
const outcomes = ['done', 'refused'] as const;
const daySeconds = 86_400;

export const auditList: Command = {
  words: 'audit list',
  positionals: ['ORG'],
  options: [
    ...narrowed,
    { name: 'limit', value: 'N', fallback: '50', doc: 'how many, up to 200' },
    json,
  ],
  doc: 'show what happened in an organization, the newest first',
  async run(input, { out, ...ports }) {
    const { name: organization } = await findOrganization(input.positionals[0] ?? '', ports.stores);
    const wanted = {
      organization,
      ...(await filterOf(input, ports.stores)),
      limit: input.must('limit'),
    };
    const { items } = await administer(auditRead, wanted, ports);
    const rows = items.map((event) => ({
      happened_at: event.at,
      actor: event.actor,
      action: event.action,
      target: event.target,
      address: event.address,
      outcome: event.outcome,
      times: event.times,
    }));
    printRows(rows, { json: input.flag('json'), empty: 'nothing like that happened here', out });
  },
};

export const auditExport: Command = {
  words: 'audit export',
  positionals: ['ORG'],
  options: [
    ...narrowed,
    { name: 'csv', doc: 'a table rather than one JSON document a line' },
    { ...json, doc: 'one JSON document a line, as without' },
  ],
  doc: 'print the whole record of an organization, or a part of it',
  async run(input, { out, ...ports }) {
    const { name: organization } = await findOrganization(input.positionals[0] ?? '', ports.stores);
    const format = input.flag('csv') ? 'csv' : 'jsonl';
    const filter = await filterOf(input, ports.stores);
    await administer(noteExport, { organization, ...filter, format }, ports);
    const query = { organization, ...filter };
    for await (const piece of exportAudit(query, format, ports.stores)) {
      piece.trimEnd().split(/\r?\n/).forEach(out);
    }
  },
};

/**
 * @throws {UsageError}
 * @throws {CommandError} when nobody has the address that is given
 */
async function filterOf(input: Input, stores: Stores) {
  const typed = input.text('outcome');
  const outcome = outcomes.find((known) => known === typed);
  if (typed !== undefined && !outcome) {
    throw new UsageError(`--outcome '${typed}' is unknown`, `it is ${outcomes.join(' or ')}`);
  }
  const until = day('until', input);
  const who = input.text('actor');
  return {
    actor: who?.includes('@') ? `user:${(await findUser(who, stores)).id}` : who,
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
  if (Number.isNaN(at)) throw new UsageError(`--${name} '${text}' is not a day, as 2026-11-20`);
  return at / 1000;
}
