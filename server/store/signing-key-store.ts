import type { Kysely } from 'kysely';

import type { SigningKeyRotation, SigningKeyStore, StoredSigningKey } from '#signing/signing-key';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** Signing keys in SQL. */
export function signingKeyStore(db: Kysely<Schema>): SigningKeyStore & SigningKeyRotation {
  return {
    async list() {
      const rows = await db
        .selectFrom('signing_key')
        .selectAll()
        .orderBy('created_at', 'desc')
        .orderBy('kid')
        .execute();
      return rows.map((row) => ({
        kid: row.kid,
        publicJwk: row.public_jwk,
        encryptedPrivateKey: row.encrypted_private_key,
        createdAt: row.created_at,
        retiredAt: row.retired_at ?? undefined,
      }));
    },

    async add(key) {
      await db.insertInto('signing_key').values(rowOf(key)).execute();
    },

    async rotate(key, forgetBefore) {
      await inTransaction(db, async (transaction) => {
        await transaction
          .updateTable('signing_key')
          .set({ retired_at: key.createdAt })
          .where('retired_at', 'is', null)
          .execute();
        await transaction.insertInto('signing_key').values(rowOf(key)).execute();
        await transaction
          .deleteFrom('signing_key')
          .where('retired_at', '<', forgetBefore)
          .execute();
      });
    },
  };
}

function rowOf({ kid, publicJwk, encryptedPrivateKey, createdAt }: StoredSigningKey) {
  return {
    kid,
    public_jwk: publicJwk,
    encrypted_private_key: encryptedPrivateKey,
    created_at: createdAt,
    retired_at: null,
  };
}
