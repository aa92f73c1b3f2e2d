import type { CallToolResult } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { QueryOutcome } from './query-process.ts';
import { textTable } from './text-table.ts';
import { answer, failure, readOnly } from './tool-result.ts';

/** The tool that runs other people's SQL. */
export const queryTool = {
  title: 'Query the library',
  description:
    'Runs one SQLite SELECT (or WITH … SELECT, VALUES) on the sample library, read-only, for 5 seconds at most. Call describe_table first for the names of columns.',
  inputSchema: z.object({
    sql: z.string().min(1).max(100_000).describe('One SELECT statement in SQLite’s SQL'),
    limit: z.int().min(1).max(1000).default(200).describe('The most rows to return'),
  }),
  outputSchema: z.object({
    columns: z.array(z.string()),
    rows: z.array(z.array(z.union([z.string(), z.number(), z.null()]))),
    rowCount: z.number().int(),
    truncated: z.boolean().describe('Whether there were more rows'),
  }),
  annotations: readOnly,
};

const unanswered: Record<'too slow' | 'ended' | 'busy' | 'cancelled', string> = {
  'too slow':
    'The query was stopped after 5 seconds: join on id columns, filter earlier, and end every recursion.',
  ended:
    'The process that runs queries ended, most likely as the query took too much memory: sort or group fewer rows.',
  busy: 'Too many queries are waiting: try again in a few seconds.',
  cancelled: 'The query was cancelled.',
};

/** An outcome in words for a model, which should know how to do better. */
export function queryResult(outcome: QueryOutcome | { outcome: 'busy' }): CallToolResult {
  if (outcome.outcome === 'refused')
    return failure(`The query was not answered: ${outcome.reason}.`);
  if (outcome.outcome !== 'rows') return failure(unanswered[outcome.outcome]);
  const { columns, rows, truncated } = outcome;
  const said = truncated
    ? `The first ${rows.length} rows; there are more. Raise limit (1,000 at most), or narrow or group the query.`
    : `${rows.length} ${rows.length === 1 ? 'row' : 'rows'}.`;
  const structured = { columns, rows, rowCount: rows.length, truncated };
  return answer(`${textTable(columns, rows)}\n\n${said}`, structured);
}
