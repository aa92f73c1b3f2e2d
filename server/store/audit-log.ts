import { randomBytes } from 'node:crypto';

import type { Kysely, Selectable } from 'kysely';

import type { AuditEvent, AuditLog } from '#audit/audit-log';
import type { Schema } from './schema.ts';

/** The audit log in SQL; the database itself refuses to change or remove an event. */
export function auditLog(db: Kysely<Schema>): AuditLog {
  return {
    async append(event) {
      await db
        .insertInto('audit_event')
        .values({
          id: nextId(event.at),
          at: event.at,
          actor: event.actor,
          organization: event.organization ?? null,
          action: event.action,
          target: event.target ?? null,
          address: event.address ?? null,
          request_id: event.requestId ?? null,
          outcome: event.outcome,
        })
        .execute();
    },

    async newest(limit) {
      const rows = await db
        .selectFrom('audit_event')
        .selectAll()
        .orderBy('at', 'desc')
        .orderBy('id', 'desc')
        .limit(limit)
        .execute();
      return rows.map(readEvent);
    },
  };
}

/** Sorts by time, and within a second of one process by order. */
function nextId(at: number): string {
  const tick = process.hrtime.bigint().toString(16).padStart(16, '0');
  return `${at.toString(16).padStart(10, '0')}${tick}${randomBytes(4).toString('hex')}`;
}

function readEvent(row: Selectable<Schema['audit_event']>): AuditEvent {
  return {
    at: row.at,
    actor: row.actor,
    organization: row.organization ?? undefined,
    action: row.action,
    target: row.target ?? undefined,
    address: row.address ?? undefined,
    requestId: row.request_id ?? undefined,
    outcome: row.outcome === 'done' ? 'done' : 'refused',
  };
}
