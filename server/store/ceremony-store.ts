import type { Kysely } from 'kysely';

import type { CeremonyStore } from '#people/ceremony-store';
import type { Schema } from './schema.ts';

/** What browsers have begun, in SQL; what has ended is gone. */
export function ceremonyStore(db: Kysely<Schema>): CeremonyStore {
  return {
    async begin(hash, expiresAt) {
      await db.insertInto('ceremony').values({ hash, expires_at: expiresAt }).execute();
    },

    async end(hash, now) {
      const row = await db
        .deleteFrom('ceremony')
        .where('hash', '=', hash)
        .returning('expires_at')
        .executeTakeFirst();
      await db.deleteFrom('ceremony').where('expires_at', '<=', now).execute();
      return row !== undefined && row.expires_at > now;
    },
  };
}
