import type { Kysely } from 'kysely';

import type { Schema } from './schema.ts';

/** Does `work` in one transaction: in the one that `db` already is, else in one of its own. */
export async function inTransaction<Result>(
  db: Kysely<Schema>,
  work: (transaction: Kysely<Schema>) => Promise<Result>,
): Promise<Result> {
  return db.isTransaction ? work(db) : db.transaction().execute(work);
}
