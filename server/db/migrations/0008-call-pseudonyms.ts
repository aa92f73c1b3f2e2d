import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/** The people whose recorded calls are to get a pseudonym. A row links both, so it is deleted once the calls have the pseudonym. */
export async function up(db: Db): Promise<void> {
  await sql
    .raw(isPostgres(db) ? table.replaceAll(/\btext\b/g, 'text collate "C"') : table)
    .execute(db);
}

const table = `create table call_pseudonym (
    organization_id text not null references organization (id) on delete cascade,
    person_id text not null,
    pseudonym text not null,
    requested_at_ms bigint not null,
    rounds integer not null,
    due_at_ms bigint not null,
    primary key (organization_id, person_id)
  )`;
