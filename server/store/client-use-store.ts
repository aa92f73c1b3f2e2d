import type { Kysely } from 'kysely';

import type { ClientUseStore } from '#dashboard/client-use-store';
import type { Schema } from './schema.ts';

/** The use of OAuth clients in SQL. */
export function clientUseStore(db: Kysely<Schema>): ClientUseStore {
  return {
    async people(clientId, now) {
      const { count } = await db
        .selectFrom('oauth_grant')
        .select(({ fn }) => fn.count('person_id').distinct().as('count'))
        .where('client_id', '=', clientId)
        .where('revoked_at', 'is', null)
        .where('expires_at', '>', now)
        .executeTakeFirstOrThrow();
      return Number(count);
    },
  };
}
