import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/** Which servers are installed on computers by default, and which are listed publicly. */
export async function up(db: Db): Promise<void> {
  for (const statement of statements) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
}

const statements = [
  `create table endpoint_installation (
    endpoint_id text primary key references endpoint (id) on delete cascade,
    install text not null
  )`,
  `create table endpoint_installation_group (
    endpoint_id text not null references endpoint_installation (endpoint_id) on delete cascade,
    group_id text not null references person_group (id) on delete cascade,
    primary key (endpoint_id, group_id)
  )`,
  `create index endpoint_installation_by_group on endpoint_installation_group (group_id)`,
  // A publication has words of its own: a change of a server's title or description in the organization never becomes public.
  `create table endpoint_publication (
    endpoint_id text primary key references endpoint (id) on delete cascade,
    title text not null,
    description text not null,
    version integer not null,
    published_at bigint not null,
    updated_at bigint not null
  )`,
];
