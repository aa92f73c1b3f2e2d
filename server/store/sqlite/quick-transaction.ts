import { sql, type Kysely } from 'kysely';

import type { Schema } from '#store/schema';

/**
 * Does `work` in a transaction that does not wait for the disk: it outlives the process at once, and a loss of power
 * once anything else was committed. For counts that are made again, never for what somebody was told is kept.
 *
 * SQLite `pragma synchronous`, in write-ahead logging
 */
export async function inQuickTransaction<Result>(
  db: Kysely<Schema>,
  work: (transaction: Kysely<Schema>) => Promise<Result>,
): Promise<Result> {
  if (db.isTransaction) return work(db);
  return db.connection().execute(async (connection) => {
    await sql`pragma synchronous = normal`.execute(connection);
    try {
      return await connection.transaction().execute(work);
    } finally {
      await sql`pragma synchronous = full`.execute(connection);
    }
  });
}
