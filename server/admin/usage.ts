import { z } from 'zod';

import { json } from '#config/option';
import { UsageError } from '#config/usage-error';
import { callKinds, type CallKind, readCallerSubject } from '#model/call-counts';
import { findServer, listServers } from '#db/servers';
import { findCallerNames, findSubjectNames } from '#db/subject-names';
import type { Db } from '#db/transaction';
import { isUsageRange, readUsage, usageRanges, type UsageReading } from '#usage/read-usage';
import { administer, type Command } from './command.ts';
import { fields } from './fields.ts';
import { organizationOperation, type Operation } from './operation.ts';
import { findListed } from './positionals.ts';
import { type Cell, printRows } from './print.ts';
import { notFound } from './refusal.ts';
import { viewOf } from './views.ts';

const mostRows = 1000;
const rangeNames = Object.keys(usageRanges).filter(isUsageRange);

const counts = {
  calls: z.int(),
  toolErrors: z.int().describe('Answered with an error'),
  refused: z.int().describe('Denied'),
  upstreamErrors: z.int().describe('Not answered by the server'),
};

const usageRowSchema = z
  .object({
    server: z
      .object({ id: z.string(), name: z.string().nullable() })
      .describe('The name is `null` if the server was deleted'),
    type: z.enum(callKinds).describe('What the ID or name is of'),
    id: z.string().describe('An ID, or the name of a tool, method or application'),
    name: z.string().nullable().describe('`null` if it was deleted'),
    tool: z.string().nullable().describe('The tool that was called; only with `by=caller`'),
    ...counts,
    medianMs: z.number().nullable().describe('`null` with `by=caller`'),
    p90Ms: z.number().nullable(),
    p99Ms: z.number().nullable(),
  })
  .meta({ id: 'UsageRow' });

export const usageRead = organizationOperation({
  name: 'usage.read',
  doc: 'Count the calls of an organization: by server, person, tool and so on, busiest first',
  route: { method: 'GET', path: '/organizations/{organization}/usage' },
  permission: 'usage.read',
  input: z.strictObject({
    organization: fields.organization,
    server: fields.server.optional(),
    by: z
      .enum(callKinds)
      .default('server')
      .describe('What calls are counted for; `caller`: each tool of each person, key or client'),
    range: z.enum(rangeNames).default('24h').describe('How far back'),
    limit: z.coerce.number().int().min(1).max(mostRows).default(50),
  }),
  output: z.object({
    from: fields.at,
    until: fields.at,
    items: z.array(usageRowSchema),
    others: z.object(counts).describe('The sum of all that are not in `items`'),
  }),
  async run({ server, by, range, limit }, { organization }, { db, clock }) {
    const found =
      server === undefined ? undefined : await findServer(db, organization.name, server);
    if (server !== undefined && !found) throw notFound('server');
    const of = { kind: by, serverId: found?.id };
    const query = { organizationId: organization.id, range, of, limit };
    const reading = await readUsage(query, clock.now(), { db });
    const { from, until, others } = reading;
    return { from, until, items: await rowsOf(organization.id, by, reading, db), others };
  },
});

async function rowsOf(
  organizationId: string,
  by: CallKind,
  { subjects }: Pick<UsageReading, 'subjects'>,
  db: Db,
): Promise<z.output<typeof usageRowSchema>[]> {
  const page = { sort: 'name', descending: false, limit: mostRows, offset: 0 } as const;
  const { items } = await listServers(db, { organizationId, text: undefined, ...page });
  const servers = new Map(items.map(({ id, name }) => [id, name]));
  const ids = [...new Set(subjects.map(({ subject }) => subject))];
  const names = await (by === 'caller' ? findCallerNames(db, ids) : findSubjectNames(db, by, ids));
  return subjects.map(({ serverId, subject, total }) => {
    const read = by === 'caller' ? readCallerSubject(subject) : undefined;
    return viewOf(usageRowSchema, {
      ...total,
      server: { id: serverId, name: servers.get(serverId) ?? null },
      type: read?.caller.type ?? by,
      id: read?.caller.id ?? subject,
      name: names.get(subject),
      tool: read?.tool,
      medianMs: total.p50,
      p90Ms: total.p90,
      p99Ms: total.p99,
    });
  });
}

export const usageOperations: readonly Operation[] = [usageRead];

const listCommand: Command = {
  words: 'usage list',
  positionals: ['ORG[/SERVER]'],
  options: [
    {
      name: 'by',
      value: 'KIND',
      fallback: 'server',
      doc: `what calls are counted for: ${callKinds.join(', ')}; caller is each tool of each person, key or client`,
    },
    {
      name: 'range',
      value: 'TIME',
      fallback: '24h',
      doc: `how far back: ${rangeNames.join(', ')}`,
    },
    {
      name: 'limit',
      value: 'COUNT',
      fallback: '50',
      doc: `the number of rows, up to ${mostRows}`,
    },
    json,
  ],
  doc: 'count the calls of an organization or a server, busiest first',
  async run(input, { out, ...ports }) {
    const given = await findListed(input.positionals[0] ?? '', ports.stores);
    const chosen = {
      by: oneOf('by', callKinds, input.must('by')),
      range: oneOf('range', rangeNames, input.must('range')),
      limit: input.must('limit'),
    };
    const { items } = await administer(usageRead, { ...given, ...chosen }, ports);
    const rows = items.map((row) => printedRow(row, chosen.by));
    printRows(rows, { json: input.flag('json'), empty: 'no calls', out });
  },
};

function printedRow(row: z.output<typeof usageRowSchema>, by: CallKind): Record<string, Cell> {
  const of = { server: row.server.name ?? row.server.id, [by]: row.name ?? row.id };
  const counted = {
    calls: row.calls,
    tool_errors: row.toolErrors,
    refused: row.refused,
    upstream_errors: row.upstreamErrors,
  };
  if (by === 'caller') return { ...of, tool: row.tool, ...counted };
  return { ...of, ...counted, median_ms: rounded(row.medianMs), p90_ms: rounded(row.p90Ms) };
}

function rounded(ms: number | null): number | null {
  return ms === null ? null : Number(ms.toPrecision(2));
}

/** @throws {UsageError} */
function oneOf<Name extends string>(option: string, names: readonly Name[], text: string): Name {
  const found = names.find((name) => name === text);
  if (found !== undefined) return found;
  throw new UsageError(`--${option} '${text}' is unknown`, `use ${names.join(', ')}`);
}

export const usageCommands: readonly Command[] = [listCommand];
