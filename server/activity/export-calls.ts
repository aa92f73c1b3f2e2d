import { csvCell } from '#audit/export-audit';
import { type CallFilter, searchCalls } from '#db/find-calls';
import type { Db } from '#db/transaction';
import { printable } from 'latchkey-mcp/safe-text';
import { accountOwnerOf, type CallRecord } from '#model/calls';
import { asAskedByCaller, asToldToCaller } from './own-calls.ts';

const atOnce = 500;
/** The time for one query; a search that takes longer continues where it stopped. */
const budgetMs = 500;

/** The exported members of a call, in the order of the columns. */
const callColumns = [
  ['at', ({ startedAtMs }) => new Date(startedAtMs).toISOString()],
  ['duration_ms', ({ durationMs }) => durationMs],
  ['person', ({ person }) => person?.name],
  ['application', ({ application }) => application?.text],
  ['credential', ({ credential }) => credential.name],
  ['endpoint', ({ endpoint }) => endpoint.name],
  ['server', ({ target }) => target.name],
  ['method', ({ method }) => method],
  ['tool', ({ subject }) => subject],
  ['outcome', ({ end }) => end],
  ['error', ({ error }) => error],
  ['request_id', ({ requestId }) => requestId],
  ['id', ({ id }) => id],
  ['call_id', ({ callId }) => callId],
  ['times', ({ times }) => times],
  ['status', ({ status }) => status],
  ['bytes_in', ({ bytesIn }) => bytesIn],
  ['bytes_out', ({ bytesOut }) => bytesOut],
  ['account', ({ account }) => account],
  ['account_owner', (call) => accountOwnerOf(call)?.name],
  ['account_owner_id', (call) => accountOwnerOf(call)?.id],
  ['address', ({ address }) => address],
  ['era', ({ era }) => era],
  ['node', ({ node }) => node],
  ['trace_id', ({ traceId }) => traceId],
  ['device_id', ({ deviceId }) => deviceId],
] as const satisfies readonly [string, (call: CallRecord) => string | number | undefined][];

/** A call as exports show it. */
function callDocument(call: CallRecord): Record<string, string | number | null> {
  return Object.fromEntries(callColumns.map(([name, value]) => [name, value(call) ?? null]));
}

/** A call as a line of JSON, safe for terminals and for readers that split at other line separators. */
export function callLine(
  call: CallRecord,
  more: Readonly<Record<string, string | null>> = {},
): string {
  return `${printable(JSON.stringify({ ...callDocument(call), ...more }))}\n`;
}

function csvLine(call: CallRecord): string {
  return `${callColumns.map(([, value]) => csvCell(String(value(call) ?? ''))).join(',')}\r\n`;
}

export interface ExportedQuery {
  readonly organizationId: string;
  readonly filter: CallFilter;
  readonly watermarkMs: number;
  /** Whether its reader sees only their own calls. */
  readonly isOwn: boolean;
}

/**
 * Yields the selected calls, newest first, as pieces of text. Keeps a few hundred calls in memory. Once `signal` is aborted, it ends
 * after at most one more query, even if no call was found yet.
 */
export async function* exportCalls(
  { isOwn, ...query }: ExportedQuery,
  format: 'csv' | 'jsonl',
  db: Db,
  { signal }: { readonly signal?: AbortSignal } = {},
): AsyncGenerator<string> {
  if (format === 'csv') yield `${callColumns.map(([name]) => name).join(',')}\r\n`;
  const filter = isOwn ? asAskedByCaller(query.filter) : query.filter;
  let older: string | undefined;
  for (;;) {
    const from = older === undefined ? undefined : ({ id: older, side: 'older' } as const);
    const found = await searchCalls(db, {
      ...query,
      filter,
      from,
      limit: atOnce,
      budgetMs,
      signal,
    });
    const line = format === 'csv' ? csvLine : (call: CallRecord) => callLine(call);
    const calls = isOwn ? found.calls.map(asToldToCaller) : found.calls;
    if (calls.length > 0) yield calls.map(line).join('');
    older = found.stoppedAt ?? found.calls.at(-1)?.id;
    if (!found.hasMore || older === undefined || signal?.aborted) return;
  }
}
