/** Organizations, their servers and agents, and the credentials for both. */
export const serverTables = [
  `create table organization (
    id text primary key,
    name text not null unique,
    title text not null default '',
    second_factor_required integer not null default 0,
    open_clients_allowed integer not null default 1,
    latchkey_proxy_allowed integer not null default 1,
    created_at bigint not null,
    disabled_at bigint
  )`,
  `create table agent (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    name text not null,
    created_at bigint not null,
    revoked_at bigint,
    -- Until when what a process wrote about its connection is valid.
    online_until bigint,
    unique (organization_id, name)
  )`,

  // Credentials for upstreams. A row is active while its target names it; other rows are cleaned up. A row has no foreign key to its
  // target or endpoint, because it outlives both until its tokens and registration are revoked.
  `create table upstream_access (
    id text primary key,
    target_id text not null,
    endpoint_id text not null,
    kind text not null check (kind in ('client_credentials', 'authorization_code')),
    url text not null,
    metadata text not null,
    resource text not null,
    client_id text not null,
    sealed_client_secret text,
    scopes text not null,
    vouched_hosts text not null,
    registration_url text,
    sealed_registration_token text,
    attempts bigint not null default 0,
    next_attempt_at bigint not null default 0,
    created_at bigint not null
  )`,
  `create table endpoint (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    name text not null,
    title text not null default '',
    description text not null default '',
    instructions text not null default '',
    limits text,
    revision integer not null default 0,
    access text not null default 'everyone' check (access in ('everyone', 'groups')),
    created_at bigint not null,
    disabled_at bigint,
    unique (organization_id, name)
  )`,
  // Exactly one for each endpoint.
  `create table target (
    id text primary key,
    endpoint_id text not null unique references endpoint (id) on delete cascade,
    upstream_kind text not null,
    upstream_settings text not null,
    upstream_access_id text references upstream_access (id),
    upstream_forwards_caller integer not null default 0,
    upstream_headers text,
    upstream_headers_refused_at bigint,
    agent_id text references agent (id) check ((upstream_kind = 'agent') = (agent_id is not null)),
    hidden_tools text not null default '[]',
    changed_tools text not null default 'flag' check (changed_tools in ('flag', 'withhold')),
    withheld_tools text not null default '[]',
    open_tools text
  )`,
  `create table tool_definition (
    target_id text not null references target (id) on delete cascade,
    name text not null,
    accepted_digest text not null,
    accepted_text text not null,
    accepted_at bigint not null,
    seen_digest text,
    seen_text text,
    changed_at bigint,
    listed_at bigint not null,
    primary key (target_id, name)
  )`,

  `create table oauth_client (
    id text primary key,
    endpoint_id text references endpoint (id) on delete cascade,
    organization_id text references organization (id) on delete cascade,
    name text not null,
    scopes text not null,
    redirect_uris text not null,
    jwks text,
    authentication_required integer not null default 0,
    is_latchkey_proxy integer not null default 0,
    fetched_at bigint,
    created_at bigint not null,
    last_used_at bigint,
    revoked_at bigint
  )`,
  `create table client_secret (
    hash text primary key,
    id text unique,
    client_id text not null references oauth_client (id) on delete cascade,
    hint text not null,
    created_by text,
    created_at bigint not null,
    expires_at bigint,
    last_used_at bigint,
    revoked_at bigint
  )`,
  `create table api_key (
    id text primary key,
    hash text not null unique,
    hint text not null,
    name text not null,
    endpoint_id text references endpoint (id) on delete cascade,
    agent_id text references agent (id) on delete cascade,
    organization_id text references organization (id) on delete cascade,
    scopes text not null,
    created_by text,
    replaces_id text,
    created_at bigint not null,
    expires_at bigint,
    last_used_at bigint,
    revoked_at bigint,
    check ((endpoint_id is null) <> (agent_id is null))
  )`,
  `create table revoked_token (
    jti text primary key,
    expires_at bigint not null
  )`,
  `create table signing_key (
    kid text primary key,
    public_jwk text not null,
    encrypted_private_key text not null,
    created_at bigint not null,
    retired_at bigint
  )`,
];

export const serverIndexes = [
  `create index target_by_agent on target (agent_id)`,
  `create index target_by_access on target (upstream_access_id)
    where upstream_access_id is not null`,
  `create index oauth_client_by_organization on oauth_client (organization_id, created_at, id)`,
  `create index oauth_client_by_endpoint on oauth_client (endpoint_id, created_at, id)`,
  `create index oauth_client_by_name on oauth_client (endpoint_id, name, id)`,
  `create index oauth_client_counted on oauth_client (organization_id, endpoint_id, revoked_at)`,
  `create index oauth_client_active on oauth_client (endpoint_id, revoked_at)`,
  `create index client_secret_by_client on client_secret (client_id)`,
  `create index api_key_by_agent on api_key (agent_id)`,
  `create index api_key_of_agent on api_key (organization_id, agent_id, created_at)
    where agent_id is not null`,
  `create index api_key_by_organization on api_key (organization_id, created_at, id)`,
  `create index api_key_by_replaced on api_key (replaces_id) where replaces_id is not null`,
  `create index api_key_by_endpoint on api_key (endpoint_id, created_at, id)`,
  `create index api_key_by_name on api_key (endpoint_id, name, id)`,
  `create index api_key_counted on api_key (organization_id, endpoint_id, revoked_at, expires_at)
    where endpoint_id is not null`,
  `create index api_key_active on api_key (endpoint_id, revoked_at, expires_at)`,
  `create index revoked_token_by_expiry on revoked_token (expires_at)`,
];
