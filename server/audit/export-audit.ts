import type { AuditQuery, AuditReader, KeptEvent } from './audit-log.ts';
import { csvCell } from './csv-cell.ts';

const atOnce = 500;

/** How a record leaves: for a spreadsheet, or one JSON document a line. */
export type ExportFormat = 'csv' | 'jsonl';

const columns = [
  ['time', ({ at }) => new Date(at * 1000).toISOString()],
  ['actor', ({ actor }) => actor],
  ['organization', ({ organization }) => organization],
  ['action', ({ action }) => action],
  ['target', ({ target }) => target],
  ['address', ({ address }) => address],
  ['request_id', ({ requestId }) => requestId],
  ['outcome', ({ outcome }) => outcome],
  ['times', ({ times }) => times ?? 1],
] as const satisfies readonly [string, (event: KeptEvent) => string | number | undefined][];

/** Every event that is asked for, the newest first, as text in pieces; holds a few hundred at a time. */
export async function* exportAudit(
  query: Omit<AuditQuery, 'limit' | 'after'>,
  format: ExportFormat,
  { auditReader }: { auditReader: Pick<AuditReader, 'read'> },
): AsyncGenerator<string> {
  if (format === 'csv') yield `${columns.map(([name]) => name).join(',')}\r\n`;
  let after: AuditQuery['after'];
  for (;;) {
    const events = await auditReader.read({ ...query, after, limit: atOnce });
    const last = events.at(-1);
    if (!last) return;
    yield events.map(format === 'csv' ? csvLine : jsonLine).join('');
    if (events.length < atOnce) return;
    after = { at: last.at, id: last.id };
  }
}

function jsonLine(event: KeptEvent): string {
  const entries = columns.map(([name, value]) => [name, value(event) ?? null]);
  return `${JSON.stringify(Object.fromEntries(entries))}\n`;
}

function csvLine(event: KeptEvent): string {
  return `${columns.map(([, value]) => csvCell(String(value(event) ?? ''))).join(',')}\r\n`;
}
