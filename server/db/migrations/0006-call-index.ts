import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * The index of recorded calls, which is written once a quarter of an hour is over: until then, writing a call costs its row alone.
 */
export async function up(db: Db): Promise<void> {
  for (const table of tables) {
    const statement = isPostgres(db)
      ? table.replaceAll(/\btext\b/g, 'text collate "C"')
      : `${table} without rowid`;
    await sql.raw(statement).execute(db);
  }
}

const tables = [
  `create table call_quarter (
    organization_id text not null,
    quarter bigint not null,
    claimed_at_ms bigint not null,
    calls bigint,
    seconds integer,
    primary key (organization_id, quarter)
  )`,
  `create table call_subject (
    organization_id text not null,
    quarter bigint not null,
    kind text not null,
    subject text not null,
    seconds text not null,
    primary key (organization_id, quarter, kind, subject)
  )`,
];
