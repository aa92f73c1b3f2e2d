import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/** People's requests for access to servers that their groups may not use, and the devices on which recorded calls were made. */
export async function up(db: Db): Promise<void> {
  for (const statement of statements) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
}

const statements = [
  // Whether people without access see the title of the server, and may ask for access.
  `alter table endpoint add column is_requestable integer not null default 0`,
  // Deleted with the membership: a person who leaves takes their requests with them.
  `create table access_request (
    id text primary key,
    organization_id text not null,
    endpoint_id text not null references endpoint (id) on delete cascade,
    person_id text not null,
    reason text not null,
    status text not null check (status in ('open', 'granted', 'declined', 'withdrawn')),
    created_at bigint not null,
    decided_at bigint,
    decided_by text,
    group_name text,
    answer text not null default '',
    check ((status = 'open') = (decided_at is null)),
    foreign key (person_id, organization_id)
      references membership (person_id, organization_id) on delete cascade
  )`,
  `create unique index access_request_open on access_request (endpoint_id, person_id) where status = 'open'`,
  `create index access_request_by_organization on access_request (organization_id, created_at)`,
  `create index access_request_by_person on access_request (person_id, organization_id, created_at)`,
  // Not a reference: calls outlive devices.
  `alter table call_record add column device_id text`,
];
