import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * Writes down who may use a server: everyone in the organization, or only the groups in `server_group`. Before, a server without
 * groups was open to everyone, so that removing its last group opened it.
 */
export async function up(db: Db): Promise<void> {
  const statements = isPostgres(db) ? [...both, ...postgres] : both;
  for (const statement of statements) await sql.raw(statement).execute(db);
}

const both = [
  `alter table mcp_server add column access text not null default 'everyone' check (access in ('everyone', 'groups'))`,
  `update mcp_server set access = 'groups' where id in (select server_id from server_group)`,
];

const postgres = [
  `create constraint trigger mcp_server_access_changes_admissions
    after update of access on mcp_server deferrable initially deferred
    for each row execute function change_admission_epoch()`,
];
