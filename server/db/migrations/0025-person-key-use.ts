import { sql } from 'kysely';

import type { Db } from '#db/transaction';

/** When the key of a person at an upstream was last used, to within some minutes. */
export async function up(db: Db): Promise<void> {
  await sql`alter table person_key add column last_used_at bigint`.execute(db);
}
