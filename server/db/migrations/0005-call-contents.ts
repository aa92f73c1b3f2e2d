import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * The stored arguments and results of calls, the servers for which they are stored, and the people who may read them. Without foreign
 * keys: a deleted server may have millions of rows, which are removed in small steps afterwards.
 */
export async function up(db: Db): Promise<void> {
  await sql
    .raw(isPostgres(db) ? table.replaceAll(/\btext\b/g, 'text collate "C"') : table)
    .execute(db);
  await sql`alter table target add column call_contents text`.execute(db);
  await sql`alter table membership add column is_auditor integer not null default 0`.execute(db);
  if (!isPostgres(db)) return;
  await sql`create constraint trigger target_contents_change_admissions
    after update of call_contents on target deferrable initially deferred
    for each row execute function change_admission_epoch()`.execute(db);
}

/** `id` is that of the call, which begins with the time. */
const table = `create table call_content (
    organization_id text not null,
    target_id text not null,
    id text not null,
    kind text not null,
    sealed text not null,
    is_cut integer not null,
    primary key (organization_id, target_id, id, kind)
  )`;
