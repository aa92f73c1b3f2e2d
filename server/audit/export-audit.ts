import { printable } from '#log/printable';
import type { AuditQuery, AuditReader, KeptEvent } from './audit-log.ts';
import { csvCell } from './csv-cell.ts';
import { eventColumns, eventDocument } from './event-document.ts';

const atOnce = 500;

/** How a record leaves: for a spreadsheet, or one JSON document a line. */
export type ExportFormat = 'csv' | 'jsonl';

/** Every event that is asked for, the newest first, as text in pieces; holds a few hundred at a time. */
export async function* exportAudit(
  query: Omit<AuditQuery, 'limit' | 'after'>,
  format: ExportFormat,
  { auditReader }: { auditReader: Pick<AuditReader, 'read'> },
): AsyncGenerator<string> {
  if (format === 'csv') yield `${eventColumns.map(([name]) => name).join(',')}\r\n`;
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
  return `${printable(JSON.stringify(eventDocument(event)))}\n`;
}

function csvLine(event: KeptEvent): string {
  return `${eventColumns.map(([, value]) => csvCell(String(value(event) ?? ''))).join(',')}\r\n`;
}
