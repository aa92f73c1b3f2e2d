/** Organizations, servers, agents, and the credentials that open them. */
export const credentials: readonly string[] = [
  `create table organization (
    id text primary key,
    name text not null unique,
    created_at bigint not null,
    disabled_at bigint
  )`,
  `create table agent (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    name text not null,
    created_at bigint not null,
    revoked_at bigint,
    unique (organization_id, name)
  )`,
  `create table mcp_server (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    name text not null,
    upstream_kind text not null check (upstream_kind in ('demo', 'http', 'agent')),
    upstream_url text check ((upstream_kind = 'http') = (upstream_url is not null)),
    agent_id text references agent (id) check ((upstream_kind = 'agent') = (agent_id is not null)),
    hidden_tools text not null default '[]',
    created_at bigint not null,
    disabled_at bigint,
    unique (organization_id, name)
  )`,
  `create table oauth_client (
    id text primary key,
    server_id text references mcp_server (id) on delete cascade,
    name text not null,
    scopes text not null,
    redirect_uris text not null,
    jwks text,
    fetched_at bigint,
    created_at bigint not null,
    last_used_at bigint,
    revoked_at bigint
  )`,
  `create index oauth_client_by_server on oauth_client (server_id)`,
  `create table client_secret (
    hash text primary key,
    client_id text not null references oauth_client (id) on delete cascade,
    hint text not null,
    created_at bigint not null,
    revoked_at bigint
  )`,
  `create index client_secret_by_client on client_secret (client_id)`,
  `create table api_key (
    id text primary key,
    hash text not null unique,
    hint text not null,
    name text not null,
    server_id text references mcp_server (id) on delete cascade,
    agent_id text references agent (id) on delete cascade,
    scopes text not null,
    created_at bigint not null,
    expires_at bigint,
    last_used_at bigint,
    revoked_at bigint,
    check ((server_id is null) <> (agent_id is null))
  )`,
  `create index api_key_by_server on api_key (server_id)`,
  `create index api_key_by_agent on api_key (agent_id)`,
  `create table revoked_token (
    jti text primary key,
    expires_at bigint not null
  )`,
  `create index revoked_token_by_expiry on revoked_token (expires_at)`,
  `create table signing_key (
    kid text primary key,
    public_jwk text not null,
    encrypted_private_key text not null,
    created_at bigint not null,
    retired_at bigint
  )`,
];
