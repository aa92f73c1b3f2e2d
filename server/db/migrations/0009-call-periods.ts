import { sql } from 'kysely';

import type { Db } from '#db/transaction';

/** `call_period` was written with each call, and is no longer read: `call_subject` replaces it. No released version uses it. */
export async function up(db: Db): Promise<void> {
  await sql`drop table call_period`.execute(db);
}
