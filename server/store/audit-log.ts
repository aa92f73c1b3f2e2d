import { randomBytes } from 'node:crypto';

import { sql, type Kysely, type Selectable } from 'kysely';

import type { AuditEvent, AuditLog, AuditReader, KeptEvent } from '#audit/audit-log';
import type { Schema } from './schema.ts';

/** The audit log in SQL; the database itself refuses to change or remove an event. */
export function auditLog(db: Kysely<Schema>): AuditLog & AuditReader {
  return {
    async append(event) {
      const organizations = await organizationsOf(event, db);
      await db
        .insertInto('audit_event')
        .values(
          organizations.map((organization, place) => ({
            id: nextId(event.at),
            sequence: sql<number>`(select coalesce(max(sequence), 0) from audit_event) + ${place + 1}`,
            at: event.at,
            actor: event.actor,
            organization,
            action: event.action,
            target: event.target ?? null,
            address: event.address ?? null,
            request_id: event.requestId ?? null,
            outcome: event.outcome,
            times: event.times ?? 1,
          })),
        )
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

    async read({ organization, actor, action, target, outcome, from, until, after, limit }) {
      let query = db
        .selectFrom('audit_event')
        .selectAll()
        .orderBy('at', 'desc')
        .orderBy('id', 'desc')
        .limit(limit);
      const equal = { organization, actor, action, target, outcome };
      for (const name of ['organization', 'actor', 'action', 'target', 'outcome'] as const) {
        const value = equal[name];
        if (value !== undefined) query = query.where(name, '=', value);
      }
      if (from !== undefined) query = query.where('at', '>=', from);
      if (until !== undefined) query = query.where('at', '<', until);
      if (after) query = query.where(sql<boolean>`(at, id) < (${after.at}, ${after.id})`);
      return (await query.execute()).map(readKeptEvent);
    },

    async actions(organization) {
      // Each step leaps to the next action in the index, however many events have it.
      const { rows } = await sql<{ action: string }>`
        with recursive known (action) as (
          select min(action) from audit_event where organization is ${organization ?? null}
          union all
          select (select min(e.action) from audit_event e
            where e.organization is ${organization ?? null} and e.action > known.action)
          from known where known.action is not null
        )
        select action from known where action is not null`.execute(db);
      return rows.map(({ action }) => action);
    },
  };
}

async function organizationsOf(
  { actor, organization }: AuditEvent,
  db: Kysely<Schema>,
): Promise<(string | null)[]> {
  if (organization !== undefined || !actor.startsWith('user:')) return [organization ?? null];
  const rows = await db
    .selectFrom('membership')
    .innerJoin('organization', 'organization.id', 'membership.organization_id')
    .select('organization.name')
    .where('membership.person_id', '=', actor.slice('user:'.length))
    .execute();
  return rows.length > 0 ? rows.map(({ name }) => name) : [null];
}

/** Sorts by time, and within a second of one process by order. */
function nextId(at: number): string {
  const tick = process.hrtime.bigint().toString(16).padStart(16, '0');
  return `${at.toString(16).padStart(10, '0')}${tick}${randomBytes(4).toString('hex')}`;
}

export function readKeptEvent(row: Selectable<Schema['audit_event']>): KeptEvent {
  return Object.assign(readEvent(row), { id: row.id });
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
    ...(row.times > 1 && { times: row.times }),
  };
}
