import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * The identity providers of organizations, the domains that organizations have proved, and the accounts and sessions of members at
 * a provider. Not additive: a version without it would take a session of one organization for one of the whole account.
 */
export async function up(db: Db): Promise<void> {
  for (const statement of [...tables, ...view, ...columns, ...indexes]) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
  if (!isPostgres(db)) return;
  for (const [table, events] of Object.entries(epochEvents)) {
    await sql
      .raw(
        `create constraint trigger ${table}_changes_admissions
          after ${events} on ${table} deferrable initially deferred
          for each row execute function change_admission_epoch()`,
      )
      .execute(db);
  }
}

const tables = [
  `create table identity_provider (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    name text not null,
    issuer text not null,
    client_id text not null,
    sealed_secret text not null,
    scopes text not null,
    groups_claim text not null,
    email_trusted integer not null,
    joining_role text check (joining_role in ('admin', 'member', 'viewer')),
    joining_groups text not null,
    role_groups text not null,
    counts_as_two_factors integer not null,
    created_at bigint not null,
    tested_at bigint,
    tested_by text,
    disabled_at bigint,
    unique (organization_id, issuer),
    unique (id, organization_id)
  )`,
  `create table organization_domain (
    organization_id text not null references organization (id) on delete cascade,
    domain text not null,
    verification_token text not null,
    created_at bigint not null,
    proved_by text check (proved_by in ('dns', 'operator')),
    proved_at bigint,
    checked_at bigint,
    primary key (organization_id, domain),
    check ((proved_by is null) = (proved_at is null))
  )`,
  // A link belongs to a membership and ends with it, so two organizations may use one issuer.
  `create table member_identity (
    provider_id text not null,
    subject text not null,
    organization_id text not null,
    person_id text not null,
    email text,
    created_at bigint not null,
    used_at bigint not null,
    primary key (provider_id, subject),
    unique (provider_id, person_id),
    foreign key (provider_id, organization_id)
      references identity_provider (id, organization_id) on delete cascade,
    foreign key (person_id, organization_id)
      references membership (person_id, organization_id) on delete cascade
  )`,
  `create table member_identity_group (
    provider_id text not null,
    subject text not null,
    external_name text not null,
    primary key (provider_id, subject, external_name),
    foreign key (provider_id, subject)
      references member_identity (provider_id, subject) on delete cascade
  )`,
];

// Groups that a provider of an organization reports apply only in this organization, and only while the provider is enabled.
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
        and mapping.organization_id = member.organization_id`,
];

/** A session with a provider opens only the organization of that provider. */
const columns = [
  `alter table browser_session add column organization_id text references organization (id) on delete cascade`,
  `alter table browser_session add column provider_id text references identity_provider (id) on delete cascade`,
  `alter table browser_session add column provider_session text`,
  `alter table browser_session add column acr text`,
  `alter table browser_session add column amr text`,
  `alter table browser_session add column auth_time bigint`,
  `alter table organization add column single_sign_on_required integer not null default 0`,
];

const indexes = [
  `create unique index proved_domain on organization_domain (domain) where proved_by is not null`,
  `create index member_identity_by_person on member_identity (person_id, organization_id)`,
  `create index browser_session_by_provider on browser_session (provider_id, provider_session)`,
  `create index browser_session_by_organization on browser_session (organization_id)`,
];

/** As in `0002-nodes.ts`. */
const epochEvents = {
  identity_provider: 'update of disabled_at or delete',
  member_identity: 'update of person_id or delete',
  member_identity_group: 'update or delete',
};
