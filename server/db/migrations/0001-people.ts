/** People: how they sign in, and the organizations and groups that they belong to. */
export const peopleTables = [
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
  `create table endpoint_group (
    endpoint_id text not null references endpoint (id) on delete cascade,
    group_id text not null references person_group (id),
    primary key (endpoint_id, group_id)
  )`,
  `create table group_mapping (
    organization_id text not null,
    external_name text not null,
    group_id text not null,
    primary key (organization_id, external_name, group_id),
    foreign key (group_id, organization_id)
      references person_group (id, organization_id) on delete cascade
  )`,
  // The groups that a provider reported for an account at its last sign-in. `group_mapping` is applied to them at each use.
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
];

export const peopleIndexes = [
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
  `create index endpoint_group_by_group on endpoint_group (group_id)`,
  `create index group_mapping_by_name on group_mapping (external_name)`,
  `create index group_mapping_by_group on group_mapping (group_id, organization_id)`,
];
