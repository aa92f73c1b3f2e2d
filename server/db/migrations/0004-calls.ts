import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * The calls of Activity. Their only index is the primary key, because each further index would cost every call more than writing its
 * row: `call_period` finds the rows of a subject instead. Without foreign keys, because rows outlive the resources that they name. An
 * organization chooses how many days its calls are kept.
 */
export async function up(db: Db): Promise<void> {
  for (const table of tables) {
    const statement = isPostgres(db)
      ? table.replaceAll(/\btext\b/g, 'text collate "C"')
      : `${table} without rowid`;
    await sql.raw(statement).execute(db);
  }
  await sql`create index call_period_by_age on call_period (organization_id, period)`.execute(db);
  await sql`alter table organization add column call_retention_days integer`.execute(db);
}

const tables = [
  `create table call_record (
    organization_id text not null,
    id text not null,
    call_id text not null,
    started_at_ms bigint not null,
    duration_ms bigint,
    node text not null,
    request_id text not null,
    trace_id text,
    era text not null,
    person_id text,
    person_name text,
    credential_type text not null,
    credential_id text not null,
    credential_name text not null,
    application text,
    application_source text,
    address text,
    endpoint_id text not null,
    endpoint_name text not null,
    target_id text not null,
    target_name text not null,
    account text not null,
    method text,
    subject text,
    outcome text not null,
    error text,
    status integer,
    bytes_in bigint not null,
    bytes_out bigint not null,
    times integer not null,
    primary key (organization_id, id)
  )`,
  `create table call_period (
    organization_id text not null,
    kind text not null,
    subject text not null,
    period bigint not null,
    primary key (organization_id, kind, subject, period)
  )`,
];
