/** What upstreams want before they answer, and the accounts of people there. */
export const upstreamAccess: readonly string[] = [
  `create table upstream_access (
    id text primary key,
    server_id text not null,
    kind text not null check (kind in ('client_credentials', 'authorization_code')),
    url text not null,
    metadata text not null,
    resource text not null,
    client_id text not null,
    sealed_client_secret text,
    scopes text not null,
    vouched_hosts text not null,
    created_at bigint not null
  )`,
  // The one in force is the one that its server names; whatever else is there is over, and is cleared away.
  `alter table mcp_server add column upstream_access_id text references upstream_access (id)`,
  `alter table mcp_server add column upstream_tells_callers integer not null default 0`,
  // Who leaves, by whatever way, leaves tokens behind that the authorization server must be told of.
  `create table upstream_connection (
    id text primary key,
    access_id text not null references upstream_access (id),
    server_id text not null,
    subject text not null,
    person_id text,
    organization_id text,
    sealed_tokens text not null,
    version bigint not null default 0,
    claimed_until bigint not null default 0,
    created_at bigint not null,
    renewed_at bigint not null,
    failed_at bigint,
    attempts bigint not null default 0,
    next_attempt_at bigint not null default 0,
    unique (access_id, person_id),
    foreign key (person_id, organization_id)
      references membership (person_id, organization_id) on delete set null
  )`,
  `create index upstream_connection_of_person on upstream_connection (person_id, organization_id)`,
  `create index mcp_server_by_access on mcp_server (upstream_access_id)
    where upstream_access_id is not null`,
];
