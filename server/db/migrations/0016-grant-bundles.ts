import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * Grants that a person gives an application at several servers at once: one for each server, under one refresh token. Not additive: a
 * version without it would answer that the refresh token is unknown, and the application would delete it.
 */
export async function up(db: Db): Promise<void> {
  for (const statement of statements) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
}

/** SQLite cannot make a column nullable, so the table is made again: a token belongs to a grant or to a bundle. */
const refreshTokens = `create table refresh_token_of_either (
    hash text primary key,
    grant_id text references oauth_grant (id) on delete cascade,
    bundle_id text references grant_bundle (id) on delete cascade,
    expires_at bigint not null,
    spent_at bigint,
    successor_hash text,
    sealed_successor text,
    check ((grant_id is null) <> (bundle_id is null)),
    check ((spent_at is null) = (successor_hash is null)),
    check ((spent_at is null) = (sealed_successor is null))
  )`;

const statements = [
  // The code of a bundle; once the code is redeemed, the family of its refresh tokens.
  `create table grant_bundle (
    id text primary key,
    person_id text not null references person (id) on delete cascade,
    client_id text not null references oauth_client (id) on delete cascade,
    lists_servers integer not null,
    code_hash text not null unique,
    redirect_uri text not null,
    code_challenge text not null,
    code_expires_at bigint not null,
    redeemed_at bigint,
    authenticated integer not null default 0,
    expires_at bigint,
    revoked_at bigint,
    check ((redeemed_at is null) = (expires_at is null))
  )`,
  `create index grant_bundle_by_person on grant_bundle (person_id)`,
  `create index grant_bundle_by_client on grant_bundle (client_id)`,
  `create index grant_bundle_by_expiry on grant_bundle (expires_at)`,
  // Set for the part of a bundle's code that is for one server. The hash of such a row is that of no code.
  `alter table authorization_code add column bundle_id text references grant_bundle (id) on delete cascade`,
  `create index authorization_code_by_bundle on authorization_code (bundle_id) where bundle_id is not null`,
  `alter table oauth_grant add column bundle_id text references grant_bundle (id) on delete cascade`,
  `create index oauth_grant_by_bundle on oauth_grant (bundle_id) where bundle_id is not null`,
  refreshTokens,
  `insert into refresh_token_of_either (hash, grant_id, expires_at, spent_at, successor_hash, sealed_successor)
    select hash, grant_id, expires_at, spent_at, successor_hash, sealed_successor from refresh_token`,
  `drop table refresh_token`,
  `alter table refresh_token_of_either rename to refresh_token`,
  `create index refresh_token_by_grant on refresh_token (grant_id) where grant_id is not null`,
  `create index refresh_token_by_bundle on refresh_token (bundle_id) where bundle_id is not null`,
];
