import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * Review of all definitions that a model reads, corrections, and rights per tool. Not additive: a version without it would offer
 * restricted tools to everyone.
 */
export async function up(db: Db): Promise<void> {
  if (isPostgres(db)) await sql`drop trigger target_changes_admissions on target`.execute(db);
  for (const statement of statements) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
  if (!isPostgres(db)) return;
  for (const [name, events] of Object.entries(epochTriggers)) {
    await sql
      .raw(
        `create constraint trigger ${name}
          after ${events} deferrable initially deferred
          for each row execute function change_admission_epoch()`,
      )
      .execute(db);
  }
}

const statements = [
  // The rules about who may use the tools, prompts and resources of the server; null without any rule.
  `alter table target add column tool_rules text`,
  `alter table target add column new_tools text not null default 'offer'
    check (new_tools in ('offer', 'review'))`,
  // The facts that calls need, derived from the definitions.
  `alter table target add column offered text not null default '{}'`,
  `update target set offered = '{"withheld":{"tool":' || withheld_tools || '}'
    || case when open_tools is null then '' else ',"open":{"tool":' || open_tools || '}' end || '}'`,
  `alter table target drop column withheld_tools`,
  `alter table target drop column open_tools`,
  // The hidden tools that an MCP credential hid and may show again.
  `alter table target add column hidden_by_credential text not null default '[]'`,
  // The kinds of definitions of which a whole list was read.
  `alter table target add column listed_kinds text not null default '[]'`,
  // Counts the changes of the definitions that lists are compared with.
  `alter table target add column definitions_revision bigint not null default 0`,
  `alter table api_key add column tool_selection text`,
  `alter table oauth_client add column tool_selection text`,
  `alter table oauth_grant add column tool_selection text`,
  `alter table authorization_code add column tool_selection text`,
  `create table primitive_definition (
    target_id text not null references target (id) on delete cascade,
    kind text not null check (kind in ('tool', 'prompt', 'template', 'instructions')),
    name text not null,
    accepted_digest text,
    accepted_text text,
    accepted_annotations text,
    accepted_at bigint,
    accepted_by text,
    seen_digest text,
    seen_text text,
    seen_annotations text,
    changed_at bigint,
    rejected_digest text,
    rejected_at bigint,
    rejected_by text,
    listed_at bigint not null,
    correction text,
    corrected_at bigint,
    corrected_by text,
    primary key (target_id, kind, name)
  )`,
  `insert into primitive_definition (target_id, kind, name, accepted_digest, accepted_text, accepted_at,
      seen_digest, seen_text, changed_at, listed_at)
    select target_id, 'tool', name, accepted_digest, accepted_text, accepted_at,
      seen_digest, seen_text, changed_at, listed_at from tool_definition`,
  `drop table tool_definition`,
  `create index primitive_definition_waiting on primitive_definition (target_id) where seen_digest is not null`,
];

/** As in `0002-nodes.ts`. The trigger of `target` replaces the one from there, which names columns that are gone. */
const epochTriggers = {
  target_changes_admissions: `update of endpoint_id, upstream_kind, upstream_settings, upstream_access_id,
    upstream_forwards_caller, upstream_headers, agent_id, hidden_tools, changed_tools, new_tools, tool_rules,
    offered or delete on target`,
  api_key_tools_change_admissions: 'update of tool_selection on api_key',
  oauth_client_tools_change_admissions: 'update of tool_selection on oauth_client',
  oauth_grant_tools_change_admissions: 'update of tool_selection on oauth_grant',
};
