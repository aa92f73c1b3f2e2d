import type { Kysely } from 'kysely';

import type { IdentityStore } from '#people/identity-store';
import type { Schema } from './schema.ts';

/** Ties to upstream OpenID accounts in SQL. */
export function identityStore(db: Kysely<Schema>): IdentityStore {
  return {
    async userOf(issuer, subject) {
      const row = await db
        .selectFrom('identity')
        .select('person_id')
        .where('issuer', '=', issuer)
        .where('subject', '=', subject)
        .executeTakeFirst();
      return row?.person_id;
    },

    async link(issuer, subject, userId) {
      const { numInsertedOrUpdatedRows } = await db
        .insertInto('identity')
        .values({ issuer, subject, person_id: userId })
        .onConflict((conflict) => conflict.columns(['issuer', 'subject']).doNothing())
        .executeTakeFirst();
      return numInsertedOrUpdatedRows === 1n;
    },

    async isLinked(issuer, userId) {
      const row = await db
        .selectFrom('identity')
        .select('subject')
        .where('issuer', '=', issuer)
        .where('person_id', '=', userId)
        .executeTakeFirst();
      return row !== undefined;
    },

    async unlink(issuer, userId) {
      const { numDeletedRows } = await db
        .deleteFrom('identity')
        .where('issuer', '=', issuer)
        .where('person_id', '=', userId)
        .executeTakeFirst();
      return numDeletedRows > 0n;
    },

    async unlinkAll(userId) {
      const { numDeletedRows } = await db
        .deleteFrom('identity')
        .where('person_id', '=', userId)
        .executeTakeFirst();
      return numDeletedRows > 0n;
    },
  };
}
