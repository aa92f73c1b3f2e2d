import {
  type AuditEvent,
  type AuditQuery,
  listAuditEvents,
  type StoredAuditEvent,
} from '#db/audit';
import type { Db } from '#db/transaction';
import { printable } from 'latchkey-mcp/safe-text';

const atOnce = 500;

/** The formats of an export: CSV for spreadsheets, or one JSON document per line. */
export type ExportFormat = 'csv' | 'jsonl';

/** Yields the selected events, newest first, as pieces of text. Keeps a few hundred events in memory. */
export async function* exportAudit(
  query: Omit<AuditQuery, 'limit' | 'after'>,
  format: ExportFormat,
  { db }: { readonly db: Db },
): AsyncGenerator<string> {
  if (format === 'csv') yield `${eventColumns.map(([name]) => name).join(',')}\r\n`;
  let after: AuditQuery['after'];
  for (;;) {
    const events = await listAuditEvents(db, { ...query, after, limit: atOnce });
    const last = events.at(-1);
    if (!last) return;
    yield events.map(format === 'csv' ? csvLine : jsonLine).join('');
    if (events.length < atOnce) return;
    after = { at: last.at, id: last.id };
  }
}

function jsonLine(event: StoredAuditEvent): string {
  return `${printable(JSON.stringify(eventDocument(event)))}\n`;
}

function csvLine(event: StoredAuditEvent): string {
  return `${eventColumns.map(([, value]) => csvCell(String(value(event) ?? ''))).join(',')}\r\n`;
}

/**
 * Text as a CSV cell. Prevents spreadsheets from executing it as a formula, also when written in full-width letters
 * as East Asian versions accept. Control characters are escaped for people who view the file in a terminal. RFC 4180
 * §2, OWASP "CSV Injection"
 */
export function csvCell(text: string): string {
  const shown = printable(text);
  const safe = /^\s*[=+\-@＝＋－＠]/u.test(shown) ? `'${shown}` : shown;
  return `"${safe.replaceAll('"', '""')}"`;
}

/** The exported members of an event, in the order of the columns. */
const eventColumns = [
  ['time', ({ at }) => new Date(at * 1000).toISOString()],
  ['actor', ({ actor }) => actor],
  ['organization', ({ organization }) => organization],
  ['action', ({ action }) => action],
  ['target', ({ target }) => target],
  ['address', ({ address }) => address],
  ['request_id', ({ requestId }) => requestId],
  ['outcome', ({ outcome }) => outcome],
  ['times', ({ times }) => times ?? 1],
] as const satisfies readonly [string, (event: AuditEvent) => string | number | undefined][];

/** An event as contained in exports and webhook messages. */
export function eventDocument(event: AuditEvent): Record<string, string | number | null> {
  return Object.fromEntries(eventColumns.map(([name, value]) => [name, value(event) ?? null]));
}
