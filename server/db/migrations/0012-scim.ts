import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * The people and groups that a directory provisions by SCIM, and the owners of keys, clients and agents. Not additive: a version
 * without it would accept suspended credentials, and let people in again whom the directory deactivated.
 */
export async function up(db: Db): Promise<void> {
  for (const statement of [...columns, ...backfill, ...tables, ...view, ...indexes]) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
  if (!isPostgres(db)) {
    await sql.raw(sqliteTrigger).execute(db);
    return;
  }
  for (const trigger of postgresTriggers) await sql.raw(trigger).execute(db);
  for (const [table, events] of Object.entries(epochEvents)) {
    await sql
      .raw(
        `create constraint trigger ${table}_provisioned_changes_admissions
          after ${events} on ${table} deferrable initially deferred
          for each row execute function change_admission_epoch()`,
      )
      .execute(db);
  }
}

/** The tables of resources that a person owns: at first, those that they created. */
const owned = ['api_key', 'oauth_client', 'agent'] as const;

const columns = [
  `alter table membership add column source text not null default 'manual'
    check (source in ('manual', 'sso', 'scim'))`,
  // What happens to the keys, clients and agents of people who leave.
  `alter table organization add column leaver_resources text not null default 'suspend'
    check (leaver_resources in ('suspend', 'keep'))`,
  // Whether SCIM groups apply to members who entered their address themselves when they accepted an invitation.
  `alter table organization add column invited_scim_groups integer not null default 0`,
  ...owned.flatMap((table) => [
    // Without a foreign key: the owner may be deleted, and the resource then needs another owner.
    `alter table ${table} add column owner_id text`,
    // Since when it needs an owner; null if it has one, or never had one.
    `alter table ${table} add column ownerless_at bigint`,
    `alter table ${table} add column suspended_at bigint`,
  ]),
];

const backfill = [
  `update api_key set owner_id = substr(created_by, 6) where created_by like 'user:%'`,
  `update oauth_client set owner_id = (
    select substr(first.created_by, 6) from client_secret first
    where first.client_id = oauth_client.id and first.created_by like 'user:%'
    order by first.created_at, first.hash limit 1
  ) where endpoint_id is not null`,
  `update agent set owner_id = (
    select substr(first.created_by, 6) from api_key first
    where first.agent_id = agent.id and first.created_by like 'user:%'
    order by first.created_at, first.id limit 1
  )`,
];

const tables = [
  `create table scim_token (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    hash text not null unique,
    hint text not null,
    created_by text not null,
    created_at bigint not null,
    expires_at bigint,
    last_used_at bigint,
    revoked_at bigint
  )`,
  // A request of the directory that failed; equal ones are counted in one row.
  `create table scim_fault (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    request text not null,
    subject text not null,
    problem text not null,
    at bigint not null,
    times bigint not null,
    unique (organization_id, request, subject, problem)
  )`,
  // The organization's copy of what the directory says about a person. Without a person, or while inactive, it gives no access.
  `create table scim_user (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    person_id text references person (id) on delete set null,
    user_name text not null,
    user_name_key text not null,
    external_id text,
    email_key text,
    attributes text not null,
    active integer not null,
    role text not null check (role in ('admin', 'member', 'viewer')),
    created_at bigint not null,
    changed_at bigint not null,
    unique (organization_id, user_name_key),
    unique (organization_id, person_id),
    unique (id, organization_id)
  )`,
  `create table scim_group (
    group_id text primary key,
    organization_id text not null,
    external_id text,
    was_adopted integer not null,
    created_at bigint not null,
    changed_at bigint not null,
    foreign key (group_id, organization_id)
      references person_group (id, organization_id) on delete cascade,
    unique (group_id, organization_id)
  )`,
  `create table scim_group_member (
    group_id text not null,
    organization_id text not null,
    scim_user_id text not null,
    primary key (group_id, scim_user_id),
    foreign key (group_id, organization_id)
      references scim_group (group_id, organization_id) on delete cascade,
    foreign key (scim_user_id, organization_id)
      references scim_user (id, organization_id) on delete cascade
  )`,
];

/**
 * SCIM groups apply to a person while their SCIM user is active. A member who was invited may have entered the address of someone else, so
 * theirs apply only once an identity provider of the organization proved who they are, or if the organization trusts such addresses.
 */
const view = [
  `drop view group_person`,
  `create view group_person as
    select group_id, organization_id, person_id, 'hand' as source from group_member
    union all
    select mapping.group_id, mapping.organization_id, identity.person_id, 'provider' as source
      from identity
      join provider_group
        on provider_group.issuer = identity.issuer and provider_group.subject = identity.subject
      join group_mapping mapping on mapping.external_name = provider_group.external_name
      join membership on membership.person_id = identity.person_id
        and membership.organization_id = mapping.organization_id
    union all
    select mapping.group_id, mapping.organization_id, member.person_id, 'provider' as source
      from member_identity member
      join identity_provider on identity_provider.id = member.provider_id
        and identity_provider.disabled_at is null
      join member_identity_group named
        on named.provider_id = member.provider_id and named.subject = member.subject
      join group_mapping mapping on mapping.external_name = named.external_name
        and mapping.organization_id = member.organization_id
    union all
    select placed.group_id, placed.organization_id, membership.person_id, 'scim' as source
      from membership
      join organization on organization.id = membership.organization_id
      join scim_user on scim_user.person_id = membership.person_id
        and scim_user.organization_id = membership.organization_id and scim_user.active = 1
      join scim_group_member placed on placed.scim_user_id = scim_user.id
      where membership.source <> 'manual' or organization.invited_scim_groups = 1
        or exists (select 1 from member_identity proved
          where proved.person_id = membership.person_id
            and proved.organization_id = membership.organization_id)`,
];

const indexes = [
  `create index api_key_by_owner on api_key (organization_id, owner_id) where owner_id is not null`,
  `create index oauth_client_by_owner on oauth_client (organization_id, owner_id)
    where owner_id is not null`,
  `create index agent_by_owner on agent (organization_id, owner_id) where owner_id is not null`,
  `create index api_key_ownerless on api_key (organization_id, ownerless_at)
    where ownerless_at is not null`,
  `create index oauth_client_ownerless on oauth_client (organization_id, ownerless_at)
    where ownerless_at is not null`,
  `create index agent_ownerless on agent (organization_id, ownerless_at)
    where ownerless_at is not null`,
  `create index scim_token_by_organization on scim_token (organization_id, created_at)`,
  `create index scim_fault_by_time on scim_fault (organization_id, at)`,
  `create index scim_user_by_external_id on scim_user (organization_id, external_id)`,
  `create index scim_user_by_email on scim_user (organization_id, email_key)`,
  `create index scim_user_by_person on scim_user (person_id)`,
  `create index scim_group_by_organization on scim_group (organization_id, group_id)`,
  `create index scim_group_by_external_id on scim_group (organization_id, external_id)`,
  `create index scim_group_member_by_user on scim_group_member (scim_user_id, organization_id)`,
];

/**
 * When a person leaves an organization, the resources that they own there need another owner, and are suspended if the organization
 * chose that, whichever statement removes the membership.
 */
function leaveResources(now: string): string {
  return owned
    .map(
      (table) => `update ${table} set ownerless_at = ${now},
        suspended_at = case when exists (select 1 from organization
          where id = old.organization_id and leaver_resources = 'suspend')
          then ${now} else suspended_at end
        where organization_id = old.organization_id and owner_id = old.person_id
          and ownerless_at is null and revoked_at is null;`,
    )
    .join('\n');
}

const sqliteTrigger = `create trigger membership_leaves_resources after delete on membership
  begin ${leaveResources(`cast(strftime('%s', 'now') as integer)`)} end`;

const postgresTriggers = [
  `create function membership_leaves_resources() returns trigger language plpgsql as $$
    begin ${leaveResources('extract(epoch from clock_timestamp())::bigint')} return null; end $$`,
  `create trigger membership_leaves_resources after delete on membership
    for each row execute function membership_leaves_resources()`,
];

/** As in `0002-nodes.ts`. */
const epochEvents = {
  organization: 'update of invited_scim_groups',
  api_key: 'update of suspended_at',
  oauth_client: 'update of suspended_at',
  scim_user: 'update of person_id, active or delete',
  scim_group_member: 'delete',
};
