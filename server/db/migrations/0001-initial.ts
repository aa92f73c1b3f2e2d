import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';
import { peopleIndexes, peopleTables } from './0001-people.ts';
import { serverIndexes, serverTables } from './0001-servers.ts';

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

// Each table refers only to tables before it.
const tables = [
  ...serverTables,
  ...peopleTables,

  `create table oauth_grant (
    id text primary key,
    person_id text not null references person (id) on delete cascade,
    client_id text not null references oauth_client (id) on delete cascade,
    endpoint_id text not null references endpoint (id) on delete cascade,
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
    endpoint_id text not null references endpoint (id) on delete cascade,
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
    endpoint_id text not null references endpoint (id) on delete cascade,
    redirect_host text not null,
    scopes text not null,
    expires_at bigint not null,
    primary key (person_id, client_id, endpoint_id, redirect_host)
  )`,
  `create table authorization_request (
    id_hash text primary key,
    session_id text not null,
    person_id text not null references person (id) on delete cascade,
    client_id text not null references oauth_client (id) on delete cascade,
    request text not null,
    endpoint_id text not null default '',
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
    target_id text not null,
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
  // follow from any sum of rows. endpoint_id, subject and target_id are empty where the whole organization is counted. Rows outlive servers and keys.
  `create table usage_rollup (
    organization_id text not null references organization (id) on delete cascade,
    kind text not null,
    period text not null check (period in ('minute', 'hour', 'day')),
    at bigint not null,
    endpoint_id text not null,
    subject text not null,
    target_id text not null,
    bucket integer not null,
    calls bigint not null,
    tool_errors bigint not null,
    refused bigint not null,
    upstream_errors bigint not null,
    primary key (organization_id, kind, period, at, endpoint_id, subject, target_id, bucket)
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
  ...serverIndexes,
  ...peopleIndexes,
  `create index oauth_grant_by_person on oauth_grant (person_id)`,
  `create index oauth_grant_by_client on oauth_grant (client_id)`,
  `create index oauth_grant_by_endpoint on oauth_grant (endpoint_id)`,
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
      and endpoint_id in (select id from endpoint where organization_id = old.organization_id);`,
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
