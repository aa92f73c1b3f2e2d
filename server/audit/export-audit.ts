import { type AuditEvent, type AuditQuery, listAuditEvents } from '#db/audit';
import type { Db } from '#db/transaction';
import { printable } from 'latchkey-mcp/safe-text';
import { type EventPeople, findEventPeople } from './event-sentences.ts';

const atOnce = 500;

/** The formats of an export: CSV for spreadsheets, or one JSON document per line. */
export type ExportFormat = 'csv' | 'jsonl';

/** Selects the exported events of an organization. */
type ExportQuery = Omit<AuditQuery, 'limit' | 'after' | 'organization'> & {
  readonly organization: string;
};

/** An exported event, with the addresses of its people. */
type ExportedEvent = AuditEvent & { readonly people: EventPeople };

/** Yields the selected events, newest first, as pieces of text. Keeps a few hundred events in memory. */
export async function* exportAudit(
  query: ExportQuery,
  format: ExportFormat,
  { db }: { readonly db: Db },
): AsyncGenerator<string> {
  if (format === 'csv') yield `${exportedColumns.map(([name]) => name).join(',')}\r\n`;
  let after: AuditQuery['after'];
  for (;;) {
    const events = await listAuditEvents(db, { ...query, after, limit: atOnce });
    const last = events.at(-1);
    if (!last) return;
    const peopleOf = await findEventPeople(query.organization, events, db);
    const exported = events.map((event) => Object.assign(event, { people: peopleOf(event) }));
    yield exported.map(format === 'csv' ? csvLine : jsonLine).join('');
    if (events.length < atOnce) return;
    after = { at: last.at, id: last.id };
  }
}

function jsonLine(event: ExportedEvent): string {
  return `${printable(JSON.stringify(documentOf(exportedColumns, event)))}\n`;
}

function csvLine(event: ExportedEvent): string {
  return `${exportedColumns.map(([, value]) => csvCell(String(value(event) ?? ''))).join(',')}\r\n`;
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

type Column<Event> = readonly [string, (event: Event) => string | number | undefined];

/** The members of an event, in the order of the columns. */
const eventColumns: readonly Column<AuditEvent>[] = [
  ['time', ({ at }) => new Date(at * 1000).toISOString()],
  ['actor', ({ actor }) => actor],
  ['organization', ({ organization }) => organization],
  ['action', ({ action }) => action],
  ['target', ({ target }) => target],
  ['address', ({ address }) => address],
  ['request_id', ({ requestId }) => requestId],
  ['outcome', ({ outcome }) => outcome],
  ['times', ({ times }) => times ?? 1],
];

/** The log itself has only ids, which a reader of the file cannot look up. */
const exportedColumns: readonly Column<ExportedEvent>[] = [
  ...eventColumns,
  ['actor_email', ({ people }) => people.actor],
  ['target_email', ({ people }) => people.target],
];

/** An event as contained in webhook messages. */
export function eventDocument(event: AuditEvent): Record<string, string | number | null> {
  return documentOf(eventColumns, event);
}

function documentOf<Event>(columns: readonly Column<Event>[], event: Event) {
  return Object.fromEntries(columns.map(([name, value]) => [name, value(event) ?? null]));
}
