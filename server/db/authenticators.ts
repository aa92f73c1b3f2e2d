import type { Selectable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import { countRows, readStrings } from './columns.ts';
import type { Schema } from './schema.ts';
import { advisoryLock, transaction, type Db } from './transaction.ts';

// The credentials that people sign in with: a password, passkeys, an authenticator app and its recovery codes.

/** A WebAuthn credential of a person. */
export type Passkey = ReturnType<typeof readPasskey>;

function readPasskey(row: Selectable<Schema['passkey']>) {
  return {
    /** The credential id, base64url. */
    id: row.id,
    userId: row.person_id,
    name: row.name,
    /** COSE key, base64url. */
    publicKey: row.public_key,
    counter: row.counter,
    transports: readStrings(row.transports),
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at ?? undefined,
  } as const;
}

/** The authenticator app that a person enrolled. RFC 6238 */
export type Totp = ReturnType<typeof readTotp>;

function readTotp(row: Schema['totp']) {
  return {
    userId: row.person_id,
    /** The shared secret, encrypted under the master key. */
    sealedSecret: row.sealed_secret,
    createdAt: row.created_at,
    /** When its first code was entered; until then, sign-in does not ask for it. */
    confirmedAt: row.confirmed_at ?? undefined,
    /** The last 30-second step whose code was used. */
    lastStep: row.last_step,
  } as const;
}

/** The encoded hash of the person's password; `undefined` when they have none. */
export async function findPasswordHash(db: Db, userId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('password')
    .select('hash')
    .where('person_id', '=', userId)
    .executeTakeFirst();
  return row?.hash;
}

/** Replaces the hash and ends all sessions of the person, in one transaction. */
export async function replacePasswordHash(db: Db, userId: string, hash: string): Promise<void> {
  await transaction(db, async (tx) => {
    await tx
      .insertInto('password')
      .values({ person_id: userId, hash })
      .onConflict((conflict) => conflict.column('person_id').doUpdateSet({ hash }))
      .execute();
    await tx.deleteFrom('browser_session').where('person_id', '=', userId).execute();
  });
}

/** @returns `false` when it is already registered */
export async function insertPasskey(db: Db, passkey: Passkey): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('passkey')
    .values({
      id: passkey.id,
      person_id: passkey.userId,
      name: passkey.name,
      public_key: passkey.publicKey,
      counter: passkey.counter,
      transports: JSON.stringify(passkey.transports),
      created_at: passkey.createdAt,
      last_used_at: null,
    })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}

export async function findPasskey(db: Db, id: string): Promise<Passkey | undefined> {
  const row = await db.selectFrom('passkey').selectAll().where('id', '=', id).executeTakeFirst();
  return row && readPasskey(row);
}

/** A person's passkeys, oldest first. */
export async function listPasskeys(db: Db, userId: string): Promise<Passkey[]> {
  const rows = await db
    .selectFrom('passkey')
    .selectAll()
    .where('person_id', '=', userId)
    .orderBy('created_at')
    .orderBy('id')
    .execute();
  return rows.map(readPasskey);
}

/** Records a use by a compare-and-set of the counter. @returns `false` if it is no longer `from`: the passkey may be cloned */
export async function advancePasskey(
  db: Db,
  id: string,
  { from, to }: { from: number; to: number },
  now: EpochSeconds,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('passkey')
    .set({ counter: to, last_used_at: now })
    .where('id', '=', id)
    .where('counter', '=', from)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** @returns `false` when the person has no such passkey */
export async function deletePasskey(db: Db, userId: string, id: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('passkey')
    .where('person_id', '=', userId)
    .where('id', '=', id)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

export async function findTotp(db: Db, userId: string): Promise<Totp | undefined> {
  const row = await db
    .selectFrom('totp')
    .selectAll()
    .where('person_id', '=', userId)
    .executeTakeFirst();
  return row && readTotp(row);
}

/** Adds an unconfirmed authenticator app, or replaces one. @returns `false` when the person has a confirmed one */
export async function insertTotp(
  db: Db,
  { userId, sealedSecret, createdAt }: Pick<Totp, 'userId' | 'sealedSecret' | 'createdAt'>,
): Promise<boolean> {
  const row = { sealed_secret: sealedSecret, created_at: createdAt };
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('totp')
    .values({ person_id: userId, ...row, confirmed_at: null, last_step: 0 })
    .onConflict((conflict) =>
      conflict.column('person_id').doUpdateSet(row).where('totp.confirmed_at', 'is', null),
    )
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}

interface ConfirmedTotp {
  /** The secret that the first code belongs to. */
  readonly sealedSecret: string;
  readonly step: number;
  readonly now: EpochSeconds;
  readonly recoveryHashes: readonly string[];
}

/**
 * Marks the app as confirmed and stores the recovery codes. @returns `false` when the person has no unconfirmed app with this
 * secret
 */
export async function markTotpConfirmed(
  db: Db,
  userId: string,
  { sealedSecret, step, now, recoveryHashes }: ConfirmedTotp,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable('totp')
      .set({ confirmed_at: now, last_step: step })
      .where('person_id', '=', userId)
      .where('sealed_secret', '=', sealedSecret)
      .where('confirmed_at', 'is', null)
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) return false;
    await replaceRecoveryCodes(tx, userId, recoveryHashes);
    return true;
  });
}

/** Invalidates the code of `step` and all earlier ones. @returns `false` when the code of that step or of a later one was used before */
export async function spendTotpStep(db: Db, userId: string, step: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('totp')
    .set({ last_step: step })
    .where('person_id', '=', userId)
    .where('confirmed_at', 'is not', null)
    .where('last_step', '<', step)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** Deletes the authenticator app and the recovery codes. @returns `false` when the person has none */
export async function deleteTotp(db: Db, userId: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    await tx.deleteFrom('recovery_code').where('person_id', '=', userId).execute();
    const { numDeletedRows } = await tx
      .deleteFrom('totp')
      .where('person_id', '=', userId)
      .executeTakeFirst();
    return numDeletedRows === 1n;
  });
}

/** Deletes a recovery code. @returns `true` only for the first caller that presents it */
export async function spendRecoveryCode(db: Db, userId: string, hash: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('recovery_code')
    .where('person_id', '=', userId)
    .where('hash', '=', hash)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

/** How many recovery codes a person has left. */
export async function countRecoveryCodes(db: Db, userId: string): Promise<number> {
  return countRows(db.selectFrom('recovery_code').where('person_id', '=', userId));
}

export async function replaceRecoveryCodes(
  db: Db,
  userId: string,
  hashes: readonly string[],
): Promise<void> {
  await transaction(db, async (tx) => {
    await advisoryLock(tx, `recovery codes ${userId}`);
    await tx.deleteFrom('recovery_code').where('person_id', '=', userId).execute();
    const rows = hashes.map((hash) => ({ hash, person_id: userId }));
    await tx.insertInto('recovery_code').values(rows).execute();
  });
}
