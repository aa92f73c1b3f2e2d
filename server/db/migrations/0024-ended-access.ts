import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * Grants by assertions belong to the device that asked, and a personal token never works again in an organization that its owner left. Not
 * additive: a version without it expects one grant for each person, client and server, and would accept such a token.
 */
export async function up(db: Db): Promise<void> {
  for (const statement of [...indexes, ...tables]) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
  for (const trigger of isPostgres(db) ? postgresTriggers : sqliteTriggers) {
    await sql.raw(trigger).execute(db);
  }
}

const indexes = [
  `drop index grant_by_assertion`,
  // A grant without a device refuses all devices if it is revoked.
  `create unique index grant_by_assertion
    on oauth_grant (person_id, client_id, endpoint_id, coalesce(device_id, '')) where is_by_assertion = 1`,
];

const tables = [
  // Without a reference to the organization: it may be deleted together with its memberships.
  `create table personal_token_ended (
    token_id text not null references personal_token (id) on delete cascade,
    organization_id text not null,
    primary key (token_id, organization_id)
  )`,
];

// Grants are deleted with their device: without one, a revoked grant would refuse all devices.
const forgetting = `delete from oauth_grant where device_id = old.id and is_by_assertion = 1;`;

/** Ends personal tokens in the organization, whichever statement removes the membership. */
const leaving = `insert into personal_token_ended (token_id, organization_id)
  select id, old.organization_id from personal_token
    where person_id = old.person_id and revoked_at is null
  on conflict do nothing;`;

const sqliteTriggers = [
  `create trigger device_forgotten_ends_assertions before delete on device begin ${forgetting} end`,
  `create trigger membership_ends_tokens after delete on membership begin ${leaving} end`,
];

const postgresTriggers = [
  `create function end_assertions_of_device() returns trigger language plpgsql as $$
    begin ${forgetting} return old; end $$`,
  `create trigger device_forgotten_ends_assertions before delete on device
    for each row execute function end_assertions_of_device()`,
  `create function membership_ends_tokens() returns trigger language plpgsql as $$
    begin ${leaving} return null; end $$`,
  `create trigger membership_ends_tokens after delete on membership
    for each row execute function membership_ends_tokens()`,
];
