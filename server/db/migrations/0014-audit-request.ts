import { sql } from 'kysely';

import type { Db } from '#db/transaction';

/** The page of a call shows the entries of the audit log that its request caused. */
export async function up(db: Db): Promise<void> {
  await sql`create index audit_event_by_request on audit_event (request_id) where request_id is not null`.execute(
    db,
  );
}
