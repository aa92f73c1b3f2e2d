import type { Kysely, Selectable } from 'kysely';

import type { ClientSecret, ClientSecretStore } from '#credentials/client-secret-store';
import { secretId } from './client-store.ts';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** Secrets of OAuth clients in SQL. */
export function clientSecretStore(db: Kysely<Schema>): ClientSecretStore {
  return {
    async add({ clientId, hint, createdAt, hash }, { most, othersExpireAt }) {
      return inTransaction(db, async (transaction) => {
        const client = await transaction
          .selectFrom('oauth_client')
          .select('id')
          .where('id', '=', clientId)
          .where('revoked_at', 'is', null)
          .executeTakeFirst();
        const { count } = await transaction
          .selectFrom('client_secret')
          .select(({ fn }) => fn.countAll<number | string>().as('count'))
          .where('client_id', '=', clientId)
          .where('revoked_at', 'is', null)
          .where((where) =>
            where.or([where('expires_at', 'is', null), where('expires_at', '>', createdAt)]),
          )
          .executeTakeFirstOrThrow();
        if (!client || Number(count) >= most) return undefined;
        if (othersExpireAt !== undefined) {
          await transaction
            .updateTable('client_secret')
            .set({ expires_at: othersExpireAt })
            .where('client_id', '=', clientId)
            .where((where) =>
              where.or([where('expires_at', 'is', null), where('expires_at', '>', othersExpireAt)]),
            )
            .execute();
        }
        const id = secretId(hash);
        await transaction
          .insertInto('client_secret')
          .values({
            hash,
            id,
            client_id: clientId,
            hint,
            created_at: createdAt,
            expires_at: null,
            last_used_at: null,
            revoked_at: null,
          })
          .execute();
        return id;
      });
    },

    async list(clientId) {
      const rows = await db
        .selectFrom('client_secret')
        .selectAll()
        .where('client_id', '=', clientId)
        .orderBy('created_at', 'desc')
        .orderBy('id')
        .execute();
      return rows.map(readSecret);
    },

    async revoke(clientId, id, now) {
      const { numUpdatedRows } = await db
        .updateTable('client_secret')
        .set({ revoked_at: now })
        .where('client_id', '=', clientId)
        .where('id', '=', id)
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },
  };
}

function readSecret(row: Selectable<Schema['client_secret']>): ClientSecret {
  return {
    id: row.id ?? '',
    clientId: row.client_id,
    hint: row.hint,
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  };
}
