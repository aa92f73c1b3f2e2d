import type { EpochSeconds } from '#model/clock';
import type { Db } from './transaction.ts';

export async function isAccessTokenRevoked(db: Db, id: string): Promise<boolean> {
  const row = await db
    .selectFrom('revoked_token')
    .select('jti')
    .where('jti', '=', id)
    .executeTakeFirst();
  return row !== undefined;
}

/** Revokes an access token before it expires: after this resolves, no read finds it valid. @returns whether it had not been revoked before */
export async function revokeAccessToken(
  db: Db,
  { id, expiresAt }: { id: string; expiresAt: EpochSeconds },
  now: EpochSeconds,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('revoked_token')
    .values({ jti: id, expires_at: expiresAt })
    .onConflict((conflict) => conflict.column('jti').doNothing())
    .executeTakeFirstOrThrow();
  await db.deleteFrom('revoked_token').where('expires_at', '<', now).execute();
  return numInsertedOrUpdatedRows === 1n;
}
