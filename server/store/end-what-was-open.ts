import type { Kysely } from 'kysely';

import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** How much was open, and is no more. */
export interface Ended {
  readonly sessions: number;
  /** One-time links and invitations. */
  readonly links: number;
}

/**
 * Ends everything that works once or for one browser: sessions, one-time links, invitations, and what waits for
 * consent or is a code already. An older state of the database knows neither which of them ended nor which
 * were used up since.
 */
export async function endWhatWasOpen(db: Kysely<Schema>): Promise<Ended> {
  return inTransaction(db, async (transaction) => {
    const end = async (
      table:
        | 'authorization_code'
        | 'authorization_request'
        | 'browser_session'
        | 'invitation'
        | 'one_time_link',
    ) => Number((await transaction.deleteFrom(table).executeTakeFirst()).numDeletedRows);
    await end('authorization_code');
    await end('authorization_request');
    const sessions = await end('browser_session');
    return { sessions, links: (await end('one_time_link')) + (await end('invitation')) };
  });
}
