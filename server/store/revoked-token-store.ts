import type { Kysely } from 'kysely';

import type { RevokedTokenStore } from '#oauth/revoked-token-store';
import type { Schema } from './schema.ts';

/** Revoked access tokens in SQL, each kept until it would have expired anyway. */
export function revokedTokenStore(db: Kysely<Schema>): RevokedTokenStore {
  return {
    async revoke({ id, expiresAt }, now) {
      await db
        .insertInto('revoked_token')
        .values({ jti: id, expires_at: expiresAt })
        .onConflict((conflict) => conflict.column('jti').doNothing())
        .execute();
      await db.deleteFrom('revoked_token').where('expires_at', '<', now).execute();
    },

    async isRevoked(id) {
      const row = await db
        .selectFrom('revoked_token')
        .select('jti')
        .where('jti', '=', id)
        .executeTakeFirst();
      return row !== undefined;
    },
  };
}
