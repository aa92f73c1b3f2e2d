import type { Kysely, Selectable } from 'kysely';

import type { PersonalToken, PersonalTokenStore } from '#credentials/personal-token';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** A use is written down when the last one is at least this old, so that a request rarely writes. */
const noteSeconds = 60;

/** Personal tokens in SQL. */
export function personalTokenStore(db: Kysely<Schema>): PersonalTokenStore {
  const active = (from: Kysely<Schema>, now: number) =>
    from.selectFrom('personal_token').where('revoked_at', 'is', null).where('expires_at', '>', now);

  return {
    async add(token, most) {
      return inTransaction(db, async (transaction) => {
        const { count } = await active(transaction, token.createdAt)
          .select(({ fn }) => fn.countAll<number | string>().as('count'))
          .where('person_id', '=', token.userId)
          .executeTakeFirstOrThrow();
        if (Number(count) >= most) return false;
        await transaction
          .insertInto('personal_token')
          .values({
            id: token.id,
            person_id: token.userId,
            hash: token.hash,
            hint: token.hint,
            name: token.name,
            created_at: token.createdAt,
            expires_at: token.expiresAt,
            last_used_at: null,
            revoked_at: null,
            factors: token.factors,
          })
          .execute();
        return true;
      });
    },

    async use(hash, now) {
      const row = await active(db, now).selectAll().where('hash', '=', hash).executeTakeFirst();
      if (!row) return undefined;
      if (row.last_used_at !== null && now - row.last_used_at < noteSeconds) return readToken(row);
      await db
        .updateTable('personal_token')
        .set({ last_used_at: now })
        .where('id', '=', row.id)
        .execute();
      return readToken({ ...row, last_used_at: now });
    },

    async list(userId) {
      const rows = await db
        .selectFrom('personal_token')
        .selectAll()
        .where('person_id', '=', userId)
        .orderBy('created_at', 'desc')
        .orderBy('id')
        .execute();
      return rows.map(readToken);
    },

    async revoke(userId, id, now) {
      const { numUpdatedRows } = await db
        .updateTable('personal_token')
        .set({ revoked_at: now })
        .where('person_id', '=', userId)
        .where('id', '=', id)
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },

    async revokeAll(userId, now) {
      await db
        .updateTable('personal_token')
        .set({ revoked_at: now })
        .where('person_id', '=', userId)
        .where('revoked_at', 'is', null)
        .execute();
    },
  };
}

function readToken(row: Selectable<Schema['personal_token']>): PersonalToken {
  return {
    id: row.id,
    userId: row.person_id,
    name: row.name,
    hint: row.hint,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
    factors: row.factors === 2 ? 2 : 1,
  };
}
