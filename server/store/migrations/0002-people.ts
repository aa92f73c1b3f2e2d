/** People, how they prove who they are, and the record of what happened. */
export const people: readonly string[] = [
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
  `create index membership_by_organization on membership (organization_id)`,
  `create table password (
    person_id text primary key references person (id) on delete cascade,
    hash text not null
  )`,
  `create table browser_session (
    id text primary key,
    token_hash text not null unique,
    person_id text not null references person (id) on delete cascade,
    created_at bigint not null,
    used_at bigint not null,
    expires_at bigint not null,
    address text not null,
    user_agent text not null
  )`,
  `create index browser_session_by_person on browser_session (person_id)`,
  `create index browser_session_by_expiry on browser_session (expires_at)`,
  `create table one_time_link (
    token_hash text primary key,
    purpose text not null check (purpose in ('set-up', 'reset')),
    person_id text references person (id) on delete cascade,
    expires_at bigint not null,
    check ((purpose = 'reset') = (person_id is not null))
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
  `create index passkey_by_person on passkey (person_id)`,
  `create table failed_attempt (
    id text primary key,
    subject text not null,
    failed_at bigint not null
  )`,
  `create index failed_attempt_by_subject on failed_attempt (subject, failed_at)`,
  `create index failed_attempt_by_time on failed_attempt (failed_at)`,
  `create table spent_challenge (
    hash text primary key,
    expires_at bigint not null
  )`,
  `create table identity (
    issuer text not null,
    subject text not null,
    person_id text not null references person (id) on delete cascade,
    primary key (issuer, subject)
  )`,
  `create index identity_by_person on identity (person_id)`,
  `create table audit_event (
    id text primary key,
    at bigint not null,
    actor text not null,
    organization text,
    action text not null,
    target text,
    address text,
    request_id text,
    outcome text not null check (outcome in ('done', 'refused'))
  )`,
  `create index audit_event_by_time on audit_event (at)`,
  `create trigger audit_event_stays before update on audit_event
    begin select raise(abort, 'an audit event is never changed'); end`,
  `create trigger audit_event_remains before delete on audit_event
    begin select raise(abort, 'an audit event is never removed'); end`,
];
