import type { EpochSeconds } from '#model/clock';
import { advisoryLock, transaction, type Db } from './transaction.ts';

/** A stored signing key: the public half in plain text, the private half encrypted. */
export interface StoredSigningKey {
  readonly kid: string;
  /** The public JWK as JSON text. */
  readonly publicJwk: string;
  readonly encryptedPrivateKey: string;
  readonly createdAt: EpochSeconds;
  /** When a newer key replaced it. Tokens that it signed remain valid until they expire. */
  readonly retiredAt?: EpochSeconds | undefined;
}

/** All keys whose tokens may still be valid, newest first. */
export async function listSigningKeys(db: Db): Promise<StoredSigningKey[]> {
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
}

export async function insertSigningKey(db: Db, key: StoredSigningKey): Promise<void> {
  await db.insertInto('signing_key').values(rowOf(key)).execute();
}

/** Adds the key unless there is one, so that nodes which start at the same time agree on the first. */
export async function insertFirstSigningKey(db: Db, key: StoredSigningKey): Promise<void> {
  await transaction(db, async (tx) => {
    await advisoryLock(tx, 'first signing key');
    const known = await tx.selectFrom('signing_key').select('kid').limit(1).executeTakeFirst();
    if (!known) await insertSigningKey(tx, key);
  });
}

/** Adds the key, retires the others, and deletes those that were retired before `deleteBefore`. */
export async function replaceSigningKey(
  db: Db,
  key: StoredSigningKey,
  deleteBefore: EpochSeconds,
): Promise<void> {
  await transaction(db, async (tx) => {
    await tx
      .updateTable('signing_key')
      .set({ retired_at: key.createdAt })
      .where('retired_at', 'is', null)
      .execute();
    await tx.insertInto('signing_key').values(rowOf(key)).execute();
    await tx.deleteFrom('signing_key').where('retired_at', '<', deleteBefore).execute();
  });
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
