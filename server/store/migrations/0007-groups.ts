/** Groups and what they open, invitations, what an organization asks of its people, and the audit's order. */
export const groups: readonly string[] = [
  `alter table organization add column second_factor_required integer not null default 0`,
  `alter table organization add column open_clients_allowed integer not null default 1`,
  `create table person_group (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    name text not null,
    created_at bigint not null,
    unique (organization_id, name),
    unique (id, organization_id)
  )`,
  // Who leaves the organization leaves its groups, whoever writes that down.
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
  `create index group_member_by_person on group_member (person_id, organization_id)`,
  `create table server_group (
    server_id text not null references mcp_server (id) on delete cascade,
    group_id text not null references person_group (id),
    primary key (server_id, group_id)
  )`,
  `create index server_group_by_group on server_group (group_id)`,
  `create table group_mapping (
    organization_id text not null,
    external_name text not null,
    group_id text not null,
    primary key (organization_id, external_name, group_id),
    foreign key (group_id, organization_id)
      references person_group (id, organization_id) on delete cascade
  )`,
  `create index group_mapping_by_name on group_mapping (external_name)`,
  `create index group_mapping_by_group on group_mapping (group_id, organization_id)`,
  // What a provider said of an account when it last signed in; what that means is looked up at each use.
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
  `create index invitation_by_organization on invitation (organization_id, created_at)`,
  `alter table audit_event add column times bigint not null default 1`,
  `create index audit_event_by_organization on audit_event (organization, at, id)`,
  `create index audit_event_by_actor on audit_event (organization, actor, at, id)`,
  `create index audit_event_by_action on audit_event (organization, action, at, id)`,
  `create index audit_event_by_target on audit_event (organization, target, at, id)`,
  `create index audit_event_by_outcome on audit_event (organization, outcome, at, id)`,
];
