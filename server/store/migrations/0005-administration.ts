/**
 * What administering needs: words about a server, more than one secret a client, and the organization of each
 * credential beside it, so that a page of ten thousand is read from an index.
 */
export const administration: readonly string[] = [
  `alter table organization add column title text not null default ''`,
  `alter table mcp_server add column title text not null default ''`,
  `alter table mcp_server add column description text not null default ''`,
  `alter table mcp_server add column instructions text not null default ''`,
  `alter table mcp_server add column upstream_public_only integer not null default 0`,
  `create index mcp_server_by_agent on mcp_server (agent_id)`,
  `alter table client_secret add column id text`,
  `alter table client_secret add column expires_at bigint`,
  `alter table client_secret add column last_used_at bigint`,
  `update client_secret set id = 'cs_' || substr(hash, 1, 16)`,
  `create unique index client_secret_by_id on client_secret (id)`,
  `alter table oauth_client add column organization_id text references organization (id) on delete cascade`,
  `update oauth_client set organization_id =
    (select organization_id from mcp_server where mcp_server.id = oauth_client.server_id)`,
  `create index oauth_client_by_organization on oauth_client (organization_id, created_at, id)`,
  `drop index oauth_client_by_server`,
  `create index oauth_client_by_server on oauth_client (server_id, created_at, id)`,
  `alter table api_key add column organization_id text references organization (id) on delete cascade`,
  `update api_key set organization_id = coalesce(
    (select organization_id from mcp_server where mcp_server.id = api_key.server_id),
    (select organization_id from agent where agent.id = api_key.agent_id))`,
  `create index api_key_by_organization on api_key (organization_id, created_at, id)`,
  `drop index api_key_by_server`,
  `create index api_key_by_server on api_key (server_id, created_at, id)`,
  `create table personal_token (
    id text primary key,
    person_id text not null references person (id) on delete cascade,
    hash text not null unique,
    hint text not null,
    name text not null,
    created_at bigint not null,
    expires_at bigint not null,
    last_used_at bigint,
    revoked_at bigint
  )`,
  `create index personal_token_by_person on personal_token (person_id, created_at)`,
];
