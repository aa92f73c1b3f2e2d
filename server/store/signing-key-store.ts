import type { Kysely } from 'kysely';

import type { SigningKeyStore } from '#signing/signing-key';
import type { Schema } from './schema.ts';

/** Signing keys in SQL. */
export function signingKeyStore(db: Kysely<Schema>): SigningKeyStore {
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
      }));
    },

    async add({ kid, publicJwk, encryptedPrivateKey, createdAt }) {
      await db
        .insertInto('signing_key')
        .values({
          kid,
          public_jwk: publicJwk,
          encrypted_private_key: encryptedPrivateKey,
          created_at: createdAt,
          retired_at: null,
        })
        .execute();
    },
  };
}
