import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * Data for assertions of other issuers: which providers may vouch for people to applications, the grants that result, and the trusted
 * issuers of workloads. Additive: a version without it treats these grants like others, and issues none. Triggers end such grants with the
 * provider or with the link of the person, even if a node of an older version disables or removes the provider, or unlinks the person.
 */
export async function up(db: Db): Promise<void> {
  for (const statement of [...tables, ...columns, ...indexes]) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
  for (const statement of isPostgres(db) ? postgresTriggers : sqliteTriggers) {
    await sql.raw(statement).execute(db);
  }
}

// Revoked grants stay, because they refuse later assertions.
const endOfProvider = (row: 'old' | 'new') =>
  `delete from oauth_grant where provider_id = ${row}.id and revoked_at is null`;
const endOfLink = `delete from oauth_grant
  where provider_id = old.provider_id and person_id = old.person_id and revoked_at is null`;

const sqliteTriggers = [
  `create trigger provider_disabled_ends_grants after update of disabled_at on identity_provider
    when new.disabled_at is not null begin ${endOfProvider('new')}; end`,
  `create trigger provider_removed_ends_grants before delete on identity_provider
    begin ${endOfProvider('old')}; end`,
  `create trigger member_unlinked_ends_grants after delete on member_identity
    begin ${endOfLink}; end`,
];

const postgresTriggers = [
  `create function end_grants_of_provider() returns trigger language plpgsql as $$
    begin ${endOfProvider('old')}; if tg_op = 'DELETE' then return old; end if; return new; end $$`,
  `create function end_grants_of_link() returns trigger language plpgsql as $$
    begin ${endOfLink}; return null; end $$`,
  `create trigger provider_disabled_ends_grants after update of disabled_at on identity_provider
    for each row when (new.disabled_at is not null) execute function end_grants_of_provider()`,
  `create trigger provider_removed_ends_grants before delete on identity_provider
    for each row execute function end_grants_of_provider()`,
  `create trigger member_unlinked_ends_grants after delete on member_identity
    for each row execute function end_grants_of_link()`,
];

const tables = [
  // How a workload proves, without a secret, that it is this client.
  `create table trust_rule (
    client_id text primary key references oauth_client (id) on delete cascade,
    issuer text not null,
    keys_url text,
    jwks text,
    audience text,
    subject text not null,
    claim_name text,
    claim_value text,
    longest_life_seconds integer not null,
    is_single_use integer not null,
    check (keys_url is null or jwks is null),
    check ((claim_name is null) = (claim_value is null))
  )`,
];

const columns = [
  `alter table identity_provider add column assertions_allowed integer not null default 0`,
  `alter table identity_provider add column assertion_clients text not null default '[]'`,
  `alter table identity_provider add column assertion_servers text not null default '[]'`,
  `alter table identity_provider add column keys_url text`,
  `alter table identity_provider add column native_client_id text`,
  // A revoked grant is kept when the provider is removed, because it still refuses later assertions.
  `alter table oauth_grant add column is_by_assertion integer not null default 0`,
  `alter table oauth_grant add column provider_id text references identity_provider (id) on delete set null`,
];

const indexes = [
  `create index trust_rule_by_issuer on trust_rule (issuer)`,
  // Used assertions are recorded here, and there may be many.
  `create index spent_challenge_by_expiry on spent_challenge (expires_at)`,
  `create unique index grant_by_assertion on oauth_grant (person_id, client_id, endpoint_id)
    where is_by_assertion = 1`,
  `create index grant_by_provider on oauth_grant (provider_id) where provider_id is not null`,
];
