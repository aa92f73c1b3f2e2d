import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/** Younger events cannot be removed, so an intruder with the rights of the server cannot remove recent traces. */
export const leastRetentionDays = 30;
const leastSeconds = leastRetentionDays * 86_400;

/**
 * Lets the server remove old events of the audit log, if its operator wants that. The row of `audit_retention` exists only within
 * a transaction that removes events; the database itself checks the age of each.
 */
export async function up(db: Db): Promise<void> {
  const statements = isPostgres(db) ? postgres : sqlite;
  for (const statement of statements) await sql.raw(statement).execute(db);
}

const table = `create table audit_retention (
    one integer primary key check (one = 1),
    removes_before bigint not null
  )`;

const sqlite = [
  table,
  `drop trigger audit_event_remains`,
  `create trigger audit_event_remains before delete on audit_event
    when not exists (select 1 from audit_retention where old.at < removes_before and old.at < unixepoch() - ${leastSeconds})
    begin select raise(abort, 'an audit event is never removed'); end`,
];

const postgres = [
  table,
  `drop trigger audit_event_remains on audit_event`,
  `create function audit_event_remains() returns trigger language plpgsql as $$
    begin
      if exists (select 1 from audit_retention
        where old.at < removes_before and old.at < extract(epoch from now()) - ${leastSeconds}) then
        return old;
      end if;
      raise exception 'an audit event is never removed';
    end $$`,
  `create trigger audit_event_remains before delete on audit_event
    for each row execute function audit_event_remains()`,
];
