import type { Kysely } from 'kysely';

import type { ConsentStore } from '#oauth/consent-store';
import { inTransaction } from './in-transaction.ts';
import { readScopes } from './json-column.ts';
import type { Schema } from './schema.ts';

/** Remembered consents in SQL. */
export function consentStore(db: Kysely<Schema>): ConsentStore {
  return {
    async allowed({ userId, clientId, serverId, redirectHost }, now) {
      const row = await db
        .selectFrom('consent')
        .select('scopes')
        .where('person_id', '=', userId)
        .where('client_id', '=', clientId)
        .where('server_id', '=', serverId)
        .where('redirect_host', '=', redirectHost)
        .where('expires_at', '>', now)
        .executeTakeFirst();
      return row ? readScopes(row.scopes) : [];
    },

    async remember({ userId, clientId, serverId, redirectHost }, scopes, expiresAt) {
      const kept = { scopes: JSON.stringify(scopes), expires_at: expiresAt };
      await db
        .insertInto('consent')
        .values({
          person_id: userId,
          client_id: clientId,
          server_id: serverId,
          redirect_host: redirectHost,
          ...kept,
        })
        .onConflict((conflict) =>
          conflict
            .columns(['person_id', 'client_id', 'server_id', 'redirect_host'])
            .doUpdateSet(kept),
        )
        .execute();
    },

    async forget({ userId, clientId, serverId }) {
      await inTransaction(db, async (transaction) => {
        await transaction
          .deleteFrom('consent')
          .where('person_id', '=', userId)
          .where('client_id', '=', clientId)
          .where('server_id', '=', serverId)
          .execute();
        await transaction
          .deleteFrom('authorization_code')
          .where('person_id', '=', userId)
          .where('client_id', '=', clientId)
          .where('server_id', '=', serverId)
          .where('spent_at', 'is', null)
          .execute();
      });
    },
  };
}
