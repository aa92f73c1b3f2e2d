import { listAuditEvents, type AuditEvent } from '#server/db/audit';
import type { Db } from '#server/db/transaction';

/** The newest events, of all organizations or without an organization; their ids are removed. */
export async function newestEvents(db: Db, limit: number): Promise<AuditEvent[]> {
  const events = await listAuditEvents(db, { organization: undefined, limit });
  return events.map((event) => Object.assign(event, { id: undefined }));
}
