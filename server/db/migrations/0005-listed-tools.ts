import { sql } from 'kysely';

import { isPostgres, type Db } from '#db/transaction';

/**
 * Writes down when each tool was last listed, so that those that are gone can be forgotten; and, for a server that has listed as
 * many tools as are remembered, which ones can be called.
 */
export async function up(db: Db): Promise<void> {
  const statements = isPostgres(db) ? [...both, ...postgres] : [...both, ...sqlite];
  for (const statement of statements) await sql.raw(statement).execute(db);
}

const both = [
  // 0: by a version that does not write it.
  `alter table tool_definition add column listed_at bigint not null default 0`,
  `alter table mcp_server add column open_tools text`,
];

const sqlite = [`update tool_definition set listed_at = unixepoch()`];

const postgres = [
  `update tool_definition set listed_at = extract(epoch from now())::bigint`,
  `create constraint trigger mcp_server_open_tools_change_admissions
    after update of open_tools on mcp_server deferrable initially deferred
    for each row execute function change_admission_epoch()`,
];
