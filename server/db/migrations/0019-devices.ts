import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/** The computers on which people use applications, as Latchkey's proxy names them. */
export async function up(db: Db): Promise<void> {
  for (const statement of statements) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
}

const statements = [
  // The id that the proxy chose belongs to one person only: for another person, the same id names another device.
  `create table device (
    id text primary key,
    person_id text not null references person (id) on delete cascade,
    claim_hash text not null,
    name text not null,
    system text not null,
    created_at bigint not null,
    named_at bigint not null,
    unique (person_id, claim_hash)
  )`,
  `alter table oauth_grant add column device_id text references device (id) on delete set null`,
  `create index oauth_grant_by_device on oauth_grant (device_id) where device_id is not null`,
  `alter table authorization_code add column device_id text references device (id) on delete set null`,
  `create index authorization_code_by_device on authorization_code (device_id) where device_id is not null`,
];
