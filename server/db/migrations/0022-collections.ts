import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * Collections: endpoints made of tools, prompts and resources of other servers of the organization. Not additive: a version without it
 * does not know the kind of their targets.
 */
export async function up(db: Db): Promise<void> {
  for (const statement of statements) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
  if (!isPostgres(db)) return;
  await sql
    .raw(
      `create constraint trigger collection_member_changes_admissions
        after insert or update or delete on collection_member deferrable initially deferred
        for each row execute function change_admission_epoch()`,
    )
    .execute(db);
}

const statements = [
  // The servers that a collection is made of, in the order that decides between equal names.
  `create table collection_member (
    collection_id text not null references endpoint (id) on delete cascade,
    member_id text not null references endpoint (id) on delete cascade,
    position integer not null,
    -- JSON: the tools, prompts and resources that were chosen; null for all.
    tool_selection text,
    -- 1 once it listed a tool with a page of its own, which calls its tools by name.
    has_apps integer not null default 0,
    primary key (collection_id, member_id),
    check (collection_id <> member_id)
  )`,
  `create index collection_member_by_member on collection_member (member_id)`,
  // The state of each name that a member has ever listed. An entry that was shown once keeps its name.
  `create table collection_name (
    collection_id text not null,
    member_id text not null,
    kind text not null check (kind in ('tool', 'prompt', 'resource', 'template')),
    name text not null,
    state text not null check (state in ('shown', 'waiting', 'left-out')),
    shown text,
    noted_at bigint not null,
    primary key (collection_id, kind, member_id, name),
    foreign key (collection_id, member_id)
      references collection_member (collection_id, member_id) on delete cascade,
    check ((state = 'shown') = (shown is not null))
  )`,
  `create unique index collection_name_shown on collection_name (collection_id, kind, shown)
    where shown is not null`,
  `create index collection_name_by_member on collection_name (collection_id, member_id)`,
];
