import { sql } from 'kysely';

import type { Db } from '#db/transaction';

/** Which servers an agent runs as commands: a JSON list of their names, as it reported when it was last connected. */
export async function up(db: Db): Promise<void> {
  await sql`alter table agent add column commands text`.execute(db);
}
