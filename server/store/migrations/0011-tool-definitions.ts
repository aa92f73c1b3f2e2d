/** What servers say of their tools, and what becomes of one that turns into another. */
export const toolDefinitions: readonly string[] = [
  `alter table mcp_server add column changed_tools text not null default 'flag'
    check (changed_tools in ('flag', 'withhold'))`,
  `alter table mcp_server add column withheld_tools text not null default '[]'`,
  `create table tool_definition (
    server_id text not null references mcp_server (id) on delete cascade,
    name text not null,
    accepted_digest text not null,
    accepted_text text not null,
    accepted_at integer not null,
    seen_digest text,
    seen_text text,
    changed_at integer,
    primary key (server_id, name)
  )`,
];
