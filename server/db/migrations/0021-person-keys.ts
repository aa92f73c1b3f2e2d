import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/** The keys of people for MCP servers that require a key of each person. */
export async function up(db: Db): Promise<void> {
  for (const statement of statements) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
  if (!isPostgres(db)) return;
  await sql.raw(`drop trigger target_changes_admissions on target`).execute(db);
  await sql
    .raw(
      `create constraint trigger target_changes_admissions after ${targetEvents} on target
        deferrable initially deferred for each row execute function change_admission_epoch()`,
    )
    .execute(db);
}

const statements = [
  // JSON: the header, its template and the help for people; null if the MCP server requires no key of each person.
  `alter table target add column upstream_key text`,
  `create table person_key (
    target_id text not null references target (id) on delete cascade,
    person_id text not null,
    organization_id text not null,
    -- Where it is sent: an origin or an agent. The sealed values open for no other place.
    place text not null,
    sealed_key text not null,
    hint text,
    set_at bigint not null,
    proved_at bigint,
    refused_at bigint,
    -- The key before it, until it is proved.
    previous_sealed_key text,
    -- Changes with the key.
    version bigint not null default 0,
    primary key (target_id, person_id),
    foreign key (person_id, organization_id)
      references membership (person_id, organization_id) on delete cascade
  )`,
  `create index person_key_of_person on person_key (person_id, organization_id)`,
];

/** As in `0015-tool-rights.ts`, with the new column. */
const targetEvents = `update of endpoint_id, upstream_kind, upstream_settings, upstream_access_id,
  upstream_forwards_caller, upstream_headers, upstream_key, agent_id, hidden_tools, changed_tools, new_tools, tool_rules,
  offered or delete`;
