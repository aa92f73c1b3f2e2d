import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/** Invitations to many people, and the mail that an organization sends through a server of its own. */
export async function up(db: Db): Promise<void> {
  for (const statement of statements) {
    const adapted = isPostgres(db)
      ? statement.replaceAll(/\btext\b/g, 'text collate "C"')
      : statement;
    await sql.raw(adapted).execute(db);
  }
}

const statements = [
  // The address that the invitation is for; null if its author named none.
  `alter table invitation add column email text`,
  // Earlier links of an invitation, which are as valid as its newest one.
  `create table invitation_link (
    token_hash text primary key,
    invitation_id text not null references invitation (id) on delete cascade,
    created_at bigint not null
  )`,
  `create index invitation_link_by_invitation on invitation_link (invitation_id, created_at)`,
  // The pause after a failure of the mail server applies to all mails of the organization.
  `create table mail_server (
    organization_id text primary key references organization (id) on delete cascade,
    host text not null,
    port integer not null,
    security text not null check (security in ('starttls', 'tls', 'none')),
    user_name text,
    sealed_password text,
    from_address text not null,
    changed_at bigint not null,
    revision integer not null default 0,
    attempts integer not null default 0,
    next_attempt_at bigint not null default 0,
    last_success_at bigint,
    last_failure_at bigint,
    last_failure text
  )`,
  // A queue, and a record of the last weeks. The content is deleted once a mail is no longer waiting.
  `create table mail (
    id text primary key,
    organization_id text not null references organization (id) on delete cascade,
    kind text not null check (kind in ('invitation', 'reminder', 'notice')),
    recipient text not null,
    invitation_id text,
    sealed_content text,
    status text not null check (status in ('waiting', 'sent', 'refused')),
    answer text,
    attempts integer not null default 0,
    next_attempt_at bigint not null,
    claimed_until bigint not null default 0,
    version integer not null default 0,
    created_at bigint not null,
    ended_at bigint,
    check ((status = 'waiting') = (sealed_content is not null)),
    check ((status = 'waiting') = (ended_at is null))
  )`,
  `create index mail_waiting on mail (organization_id, next_attempt_at) where status = 'waiting'`,
  `create index mail_by_organization on mail (organization_id, created_at)`,
  `create index mail_by_invitation on mail (invitation_id) where invitation_id is not null`,
];
