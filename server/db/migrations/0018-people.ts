import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/** Invitations to many people: whom each is for, and the links that a reminder leaves valid. */
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
];
