import type { AuditEvent } from './audit-log.ts';

/** What of an event leaves, in the order of a table's columns. */
export const eventColumns = [
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

/** An event as those who take the record away, or have it sent, read it. */
export function eventDocument(event: AuditEvent): Record<string, string | number | null> {
  return Object.fromEntries(eventColumns.map(([name, value]) => [name, value(event) ?? null]));
}
