import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/** Logouts that identity providers announce, and the refresh tokens used to check people again at their provider. */
export async function up(db: Db): Promise<void> {
  for (const statement of [...tables, ...columns, ...indexes]) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
}

const tables = [
  // Each logout token counts once. `provider` is the id of an organization's provider, or the issuer of the installation's.
  `create table provider_logout (
    provider text not null,
    token_id text not null,
    subject text,
    provider_session text,
    issued_at bigint not null,
    expires_at bigint not null,
    primary key (provider, token_id)
  )`,
  // One row for each linked account, with the token of its last sign-in. Deleted when the account is unlinked.
  `create table provider_check (
    provider text not null,
    subject text not null,
    provider_id text,
    issuer text,
    sealed_token text not null,
    version integer not null default 0,
    claimed_until bigint not null default 0,
    checked_at bigint not null,
    next_at bigint not null,
    attempts integer not null default 0,
    failing_since bigint,
    failure text,
    primary key (provider, subject),
    foreign key (provider_id, subject)
      references member_identity (provider_id, subject) on delete cascade,
    foreign key (issuer, subject) references identity (issuer, subject) on delete cascade,
    check ((provider_id is null) <> (issuer is null))
  )`,
];

const columns = [
  // Set if the provider of the installation opened the session.
  `alter table browser_session add column issuer text`,
  `alter table identity_provider add column check_again text not null default 'auto'
    check (check_again in ('auto', 'always', 'never'))`,
  `alter table identity_provider add column session_check_minutes integer not null default 60`,
  `alter table identity_provider add column grant_check_hours integer not null default 24`,
  // When it last announced a logout.
  `alter table identity_provider add column announced_at bigint`,
];

const indexes = [
  `create index provider_logout_by_expiry on provider_logout (expires_at)`,
  `create index provider_logout_by_subject on provider_logout (provider, subject)`,
  `create index provider_check_by_time on provider_check (next_at)`,
  `create index browser_session_by_issuer on browser_session (issuer, provider_session)`,
];
