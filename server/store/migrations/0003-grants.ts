/** What people granted to applications, and the codes and refresh tokens that carry it. */
export const grants: readonly string[] = [
  `create table oauth_grant (
    id text primary key,
    person_id text not null references person (id) on delete cascade,
    client_id text not null references oauth_client (id) on delete cascade,
    server_id text not null references mcp_server (id) on delete cascade,
    scopes text not null,
    redirect_host text not null,
    authenticated integer not null,
    created_at bigint not null,
    expires_at bigint not null,
    revoked_at bigint
  )`,
  `create index oauth_grant_by_person on oauth_grant (person_id)`,
  `create index oauth_grant_by_expiry on oauth_grant (expires_at)`,
  `create index oauth_grant_by_client on oauth_grant (client_id)`,
  `create index oauth_grant_by_server on oauth_grant (server_id)`,
  `create table authorization_code (
    hash text primary key,
    grant_id text not null unique,
    person_id text not null references person (id) on delete cascade,
    client_id text not null references oauth_client (id) on delete cascade,
    server_id text not null references mcp_server (id) on delete cascade,
    scopes text not null,
    redirect_uri text not null,
    code_challenge text not null,
    expires_at bigint not null,
    spent_at bigint
  )`,
  `create index authorization_code_by_expiry on authorization_code (expires_at)`,
  `create index authorization_code_by_person on authorization_code (person_id)`,
  `create table refresh_token (
    hash text primary key,
    grant_id text not null references oauth_grant (id) on delete cascade,
    expires_at bigint not null,
    spent_at bigint,
    successor_hash text,
    sealed_successor text,
    check ((spent_at is null) = (successor_hash is null)),
    check ((spent_at is null) = (sealed_successor is null))
  )`,
  `create index refresh_token_by_grant on refresh_token (grant_id)`,
  `create table consent (
    person_id text not null references person (id) on delete cascade,
    client_id text not null references oauth_client (id) on delete cascade,
    server_id text not null references mcp_server (id) on delete cascade,
    redirect_host text not null,
    scopes text not null,
    expires_at bigint not null,
    primary key (person_id, client_id, server_id, redirect_host)
  )`,
  `create table authorization_request (
    id_hash text primary key,
    session_id text not null,
    person_id text not null references person (id) on delete cascade,
    client_id text not null references oauth_client (id) on delete cascade,
    request text not null,
    expires_at bigint not null
  )`,
  `create index authorization_request_by_expiry on authorization_request (expires_at)`,
  `create table used_assertion (
    client_id text not null references oauth_client (id) on delete cascade,
    jti text not null,
    expires_at bigint not null,
    primary key (client_id, jti)
  )`,
  `create index used_assertion_by_expiry on used_assertion (expires_at)`,
];
