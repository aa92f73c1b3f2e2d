import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * The first schema. Times are seconds since 1970, booleans are 0 or 1, and lists are JSON text. The statements are the same for both
 * databases, except for triggers and `onlySqlite`. SQLite compares text byte by byte, so on PostgreSQL every text column gets
 * `collate "C"`.
 */
export async function up(db: Db): Promise<void> {
  if (isPostgres(db)) {
    const ofText = tables.map((table) =>
      table.replaceAll(/\btext\b/g, 'text collate "C"').replace(onlySqlite, ''),
    );
    // In one query: a hundred queries would take a hundred round trips.
    const all = [...ofText, ...indexes, ...postgresTriggers].join(';\n');
    await sql.raw(all).execute(db);
    return;
  }
  for (const statement of [...tables, ...indexes, ...sqliteTriggers]) {
    await sql.raw(statement).execute(db);
  }
}

/** Rows are stored in the order of their key. */
const onlySqlite = ' without rowid';

const tables = [
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

  // Credentials for upstreams. The row that its server names is active; the others are cleaned up.
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
    registration_url text,
    sealed_registration_token text,
    attempts bigint not null default 0,
    next_attempt_at bigint not null default 0,
    created_at bigint not null
  )`,
  `create table mcp_server (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    name text not null,
    title text not null default '',
    description text not null default '',
    instructions text not null default '',
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
    open_tools text,
    limits text,
    revision integer not null default 0,
    access text not null default 'everyone' check (access in ('everyone', 'groups')),
    created_at bigint not null,
    disabled_at bigint,
    unique (organization_id, name)
  )`,
  `create table tool_definition (
    server_id text not null references mcp_server (id) on delete cascade,
    name text not null,
    accepted_digest text not null,
    accepted_text text not null,
    accepted_at bigint not null,
    seen_digest text,
    seen_text text,
    changed_at bigint,
    listed_at bigint not null,
    primary key (server_id, name)
  )`,

  `create table oauth_client (
    id text primary key,
    server_id text references mcp_server (id) on delete cascade,
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
    server_id text references mcp_server (id) on delete cascade,
    agent_id text references agent (id) on delete cascade,
    organization_id text references organization (id) on delete cascade,
    scopes text not null,
    created_by text,
    replaces_id text,
    created_at bigint not null,
    expires_at bigint,
    last_used_at bigint,
    revoked_at bigint,
    check ((server_id is null) <> (agent_id is null))
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

  `create table person (
    id text primary key,
    email text not null,
    email_key text not null unique,
    created_at bigint not null
  )`,
  `create table membership (
    person_id text not null references person (id) on delete cascade,
    organization_id text not null references organization (id) on delete cascade,
    role text not null check (role in ('owner', 'admin', 'member', 'viewer')),
    primary key (person_id, organization_id)
  )`,
  `create table password (
    person_id text primary key references person (id) on delete cascade,
    hash text not null
  )`,
  `create table passkey (
    id text primary key,
    person_id text not null references person (id) on delete cascade,
    name text not null,
    public_key text not null,
    counter bigint not null,
    transports text not null,
    created_at bigint not null,
    last_used_at bigint
  )`,
  `create table totp (
    person_id text primary key references person (id) on delete cascade,
    sealed_secret text not null,
    created_at bigint not null,
    confirmed_at bigint,
    last_step bigint not null
  )`,
  `create table recovery_code (
    hash text primary key,
    person_id text not null references person (id) on delete cascade
  )`,
  `create table identity (
    issuer text not null,
    subject text not null,
    person_id text not null references person (id) on delete cascade,
    primary key (issuer, subject)
  )`,
  `create table browser_session (
    id text primary key,
    token_hash text not null unique,
    person_id text not null references person (id) on delete cascade,
    created_at bigint not null,
    used_at bigint not null,
    expires_at bigint not null,
    address text not null,
    user_agent text not null,
    factors integer not null
  )`,
  `create table known_browser (
    token_hash text not null,
    person_id text not null references person (id) on delete cascade,
    seen_at bigint not null,
    primary key (token_hash, person_id)
  )`,
  `create table failed_attempt (
    id text primary key,
    subject text not null,
    place text not null,
    failed_at bigint not null
  )`,
  `create table one_time_link (
    token_hash text primary key,
    purpose text not null check (purpose in ('set-up', 'reset')),
    person_id text references person (id) on delete cascade,
    expires_at bigint not null,
    check ((purpose = 'reset') = (person_id is not null))
  )`,
  `create table spent_challenge (
    hash text primary key,
    expires_at bigint not null
  )`,
  `create table personal_token (
    id text primary key,
    person_id text not null references person (id) on delete cascade,
    hash text not null unique,
    hint text not null,
    name text not null,
    created_by text,
    created_at bigint not null,
    expires_at bigint not null,
    last_used_at bigint,
    revoked_at bigint,
    factors integer not null default 1
  )`,
  `create table invitation (
    id text primary key,
    token_hash text not null unique,
    organization_id text not null references organization (id) on delete cascade,
    role text not null check (role in ('owner', 'admin', 'member', 'viewer')),
    group_ids text not null,
    note text not null,
    created_by text not null,
    created_at bigint not null,
    expires_at bigint not null
  )`,

  `create table person_group (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    name text not null,
    created_at bigint not null,
    unique (organization_id, name),
    unique (id, organization_id)
  )`,
  // A person who leaves the organization also leaves its groups, whichever statement removes the membership.
  `create table group_member (
    group_id text not null,
    organization_id text not null,
    person_id text not null,
    primary key (group_id, person_id),
    foreign key (group_id, organization_id)
      references person_group (id, organization_id) on delete cascade,
    foreign key (person_id, organization_id)
      references membership (person_id, organization_id) on delete cascade
  )`,
  `create table server_group (
    server_id text not null references mcp_server (id) on delete cascade,
    group_id text not null references person_group (id),
    primary key (server_id, group_id)
  )`,
  `create table group_mapping (
    organization_id text not null,
    external_name text not null,
    group_id text not null,
    primary key (organization_id, external_name, group_id),
    foreign key (group_id, organization_id)
      references person_group (id, organization_id) on delete cascade
  )`,
  // The groups that a provider reported for an account at its last sign-in. Their meaning is looked up at each use.
  `create table provider_group (
    issuer text not null,
    subject text not null,
    external_name text not null,
    primary key (issuer, subject, external_name),
    foreign key (issuer, subject) references identity (issuer, subject) on delete cascade
  )`,
  `create view group_person as
    select group_id, organization_id, person_id, 'hand' as source from group_member
    union all
    select mapping.group_id, mapping.organization_id, identity.person_id, 'provider' as source
      from identity
      join provider_group
        on provider_group.issuer = identity.issuer and provider_group.subject = identity.subject
      join group_mapping mapping on mapping.external_name = provider_group.external_name
      join membership on membership.person_id = identity.person_id
        and membership.organization_id = mapping.organization_id`,

  `create table oauth_grant (
    id text primary key,
    person_id text not null references person (id) on delete cascade,
    client_id text not null references oauth_client (id) on delete cascade,
    server_id text not null references mcp_server (id) on delete cascade,
    scopes text not null,
    redirect_host text not null,
    assistant text,
    authenticated integer not null,
    created_at bigint not null,
    expires_at bigint not null,
    last_used_at bigint,
    revoked_at bigint
  )`,
  `create table authorization_code (
    hash text primary key,
    grant_id text not null unique,
    person_id text not null references person (id) on delete cascade,
    client_id text not null references oauth_client (id) on delete cascade,
    server_id text not null references mcp_server (id) on delete cascade,
    scopes text not null,
    redirect_uri text not null,
    code_challenge text not null,
    assistant text,
    expires_at bigint not null,
    spent_at bigint
  )`,
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
    server_id text not null default '',
    scopes text not null default '[]',
    expires_at bigint not null
  )`,
  `create table used_assertion (
    client_id text not null references oauth_client (id) on delete cascade,
    jti text not null,
    expires_at bigint not null,
    primary key (client_id, jti)
  )`,

  // The tokens of a person who leaves must be revoked at the authorization server, whichever statement removes the membership.
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

  // Calls are counted in one row for each period, subject and range of latencies, so that two processes add to the same row and percentiles
  // follow from any sum of rows. server_id is empty where the whole organization is counted. Rows outlive servers and keys.
  `create table usage_rollup (
    organization_id text not null references organization (id) on delete cascade,
    kind text not null,
    period text not null check (period in ('minute', 'hour', 'day')),
    at bigint not null,
    server_id text not null,
    subject text not null,
    bucket integer not null,
    calls bigint not null,
    tool_errors bigint not null,
    refused bigint not null,
    upstream_errors bigint not null,
    primary key (organization_id, kind, period, at, server_id, subject, bucket)
  )${onlySqlite}`,

  // An id contains the time of an event, and the sequence is the order of storage. The two differ: events that are counted for a
  // minute are stored after later ones.
  `create table audit_event (
    id text primary key,
    sequence bigint not null,
    at bigint not null,
    actor text not null,
    organization text,
    action text not null,
    target text,
    address text,
    request_id text,
    outcome text not null check (outcome in ('done', 'refused')),
    times bigint not null default 1
  )`,
  // The last sequence of each organization; '' stands for events of no organization. Its row is locked until the transaction ends,
  // so that events become visible in the order of their sequence.
  `create table audit_order (
    organization text primary key,
    last bigint not null
  )`,
  `create table webhook (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    url text not null,
    actions text not null,
    sealed_secret text not null,
    sealed_earlier_secret text,
    earlier_until bigint,
    position bigint not null,
    attempts bigint not null default 0,
    next_attempt_at bigint not null default 0,
    claimed_until bigint not null default 0,
    failing_since bigint,
    last_success_at bigint,
    last_failure_at bigint,
    last_failure text,
    disabled_at bigint,
    disabled_because text,
    revision bigint not null default 0,
    created_at bigint not null
  )`,
];

const indexes = [
  `create index mcp_server_by_agent on mcp_server (agent_id)`,
  `create index mcp_server_by_access on mcp_server (upstream_access_id)
    where upstream_access_id is not null`,
  `create index oauth_client_by_organization on oauth_client (organization_id, created_at, id)`,
  `create index oauth_client_by_server on oauth_client (server_id, created_at, id)`,
  `create index oauth_client_by_name on oauth_client (server_id, name, id)`,
  `create index oauth_client_counted on oauth_client (organization_id, server_id, revoked_at)`,
  `create index oauth_client_active on oauth_client (server_id, revoked_at)`,
  `create index client_secret_by_client on client_secret (client_id)`,
  `create index api_key_by_agent on api_key (agent_id)`,
  `create index api_key_of_agent on api_key (organization_id, agent_id, created_at)
    where agent_id is not null`,
  `create index api_key_by_organization on api_key (organization_id, created_at, id)`,
  `create index api_key_by_replaced on api_key (replaces_id) where replaces_id is not null`,
  `create index api_key_by_server on api_key (server_id, created_at, id)`,
  `create index api_key_by_name on api_key (server_id, name, id)`,
  `create index api_key_counted on api_key (organization_id, server_id, revoked_at, expires_at)
    where server_id is not null`,
  `create index api_key_active on api_key (server_id, revoked_at, expires_at)`,
  `create index revoked_token_by_expiry on revoked_token (expires_at)`,
  `create index membership_by_organization on membership (organization_id)`,
  `create index passkey_by_person on passkey (person_id)`,
  `create index recovery_code_by_person on recovery_code (person_id)`,
  `create index identity_by_person on identity (person_id)`,
  `create index browser_session_by_person on browser_session (person_id)`,
  `create index browser_session_by_expiry on browser_session (expires_at)`,
  `create index known_browser_by_person on known_browser (person_id, seen_at)`,
  `create index known_browser_by_time on known_browser (seen_at)`,
  `create index failed_attempt_by_subject on failed_attempt (subject, place, failed_at)`,
  `create index failed_attempt_by_place on failed_attempt (place, failed_at)`,
  `create index failed_attempt_by_time on failed_attempt (failed_at)`,
  `create index personal_token_by_person on personal_token (person_id, created_at)`,
  `create index invitation_by_organization on invitation (organization_id, created_at)`,
  `create index group_member_by_person on group_member (person_id, organization_id)`,
  `create index server_group_by_group on server_group (group_id)`,
  `create index group_mapping_by_name on group_mapping (external_name)`,
  `create index group_mapping_by_group on group_mapping (group_id, organization_id)`,
  `create index oauth_grant_by_person on oauth_grant (person_id)`,
  `create index oauth_grant_by_client on oauth_grant (client_id)`,
  `create index oauth_grant_by_server on oauth_grant (server_id)`,
  `create index oauth_grant_by_expiry on oauth_grant (expires_at)`,
  `create index authorization_code_by_expiry on authorization_code (expires_at)`,
  `create index authorization_code_by_person on authorization_code (person_id)`,
  `create index refresh_token_by_grant on refresh_token (grant_id)`,
  `create index authorization_request_by_expiry on authorization_request (expires_at)`,
  `create index used_assertion_by_expiry on used_assertion (expires_at)`,
  `create index upstream_connection_of_person on upstream_connection (person_id, organization_id)`,
  `create index usage_rollup_by_age on usage_rollup (period, at)`,
  `create index audit_event_by_time on audit_event (at)`,
  `create index audit_event_by_organization on audit_event (organization, at, id)`,
  `create index audit_event_by_actor on audit_event (organization, actor, at, id)`,
  `create index audit_event_by_action on audit_event (organization, action, at, id)`,
  `create index audit_event_by_target on audit_event (organization, target, at, id)`,
  `create index audit_event_by_outcome on audit_event (organization, outcome, at, id)`,
  `create unique index audit_event_in_sequence on audit_event (organization, sequence)`,
  `create index webhook_of_organization on webhook (organization_id, created_at)`,
];

/**
 * A person who leaves an organization loses their grants there. Otherwise, if they joined again, applications that they had
 * forgotten would have access again. Codes are deleted first: a concurrent redemption locks the row of its code, so the grant
 * that it creates exists before grants are deleted.
 */
const endGrants = ['authorization_code', 'oauth_grant', 'consent']
  .map(
    (table) => `delete from ${table} where person_id = old.person_id
      and server_id in (select id from mcp_server where organization_id = old.organization_id);`,
  )
  .join('\n');

const sqliteTriggers = [
  `create trigger membership_ends_grants after delete on membership
    begin ${endGrants} end`,
  `create trigger audit_event_stays before update on audit_event
    begin select raise(abort, 'an audit event is never changed'); end`,
  `create trigger audit_event_remains before delete on audit_event
    begin select raise(abort, 'an audit event is never removed'); end`,
  // `insert or replace` deletes conflicting rows without firing the delete trigger. An omitted rowid is -1 here.
  `create trigger audit_event_is_new before insert on audit_event
    when exists (
      select 1 from audit_event
      where id = new.id
        or (organization is new.organization and sequence = new.sequence)
        or (new.rowid > 0 and rowid = new.rowid)
    )
    begin select raise(abort, 'an audit event is never replaced'); end`,
];

const postgresTriggers = [
  `create function membership_ends_grants() returns trigger language plpgsql as $$
    begin ${endGrants} return null; end $$`,
  `create trigger membership_ends_grants after delete on membership
    for each row execute function membership_ends_grants()`,
  `create function refuse() returns trigger language plpgsql as $$
    begin raise exception '%', tg_argv[0]; end $$`,
  `create trigger audit_event_stays before update on audit_event
    for each row execute function refuse('an audit event is never changed')`,
  `create trigger audit_event_remains before delete on audit_event
    for each row execute function refuse('an audit event is never removed')`,
  `create trigger audit_event_is_kept before truncate on audit_event
    for each statement execute function refuse('an audit event is never removed')`,
];
