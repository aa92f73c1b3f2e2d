import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/** Things that need attention, the people to whom they are announced, and the hosts in private networks that requests may reach. */
export async function up(db: Db): Promise<void> {
  for (const statement of statements) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
}

const statements = [
  // Who wants notices by e-mail; no row for those who want none.
  `create table notice_choice (
    person_id text not null,
    organization_id text not null,
    -- JSON: the kinds of things.
    kinds text not null,
    frequency text not null check (frequency in ('now', 'daily')),
    changed_at bigint not null,
    -- What was announced until then was sent.
    sent_at bigint,
    primary key (organization_id, person_id),
    foreign key (person_id, organization_id)
      references membership (person_id, organization_id) on delete cascade
  )`,
  // The things that were seen, so that each is announced only once.
  `create table noticed_thing (
    organization_id text not null references organization (id) on delete cascade,
    kind text not null,
    subject text not null,
    first_seen_at bigint not null,
    last_seen_at bigint not null,
    announced_at bigint,
    primary key (organization_id, kind, subject)
  )`,
  // When to look at each organization next; only one of several processes does.
  `create table notice_look (
    organization_id text primary key references organization (id) on delete cascade,
    next_at bigint not null
  )`,
  // Hosts and ranges of addresses in private networks that the operator allowed while the server ran.
  `create table outbound_host (
    host text primary key,
    note text not null,
    created_by text not null,
    created_at bigint not null
  )`,
];
