import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/** How many calls Activity lacks, and why: one row for each minute, node and reason. */
export async function up(db: Db): Promise<void> {
  const statement = isPostgres(db)
    ? table.replaceAll(/\btext\b/g, 'text collate "C"')
    : `${table} without rowid`;
  await sql.raw(statement).execute(db);
}

const table = `create table call_gap (
    organization_id text not null,
    minute bigint not null,
    node text not null,
    reason text not null,
    from_ms bigint not null,
    until_ms bigint not null,
    calls bigint not null,
    primary key (organization_id, minute, node, reason)
  )`;
