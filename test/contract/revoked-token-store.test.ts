import { expect, test } from 'vitest';
import { revokeAccessToken } from '#server/db/revoked-tokens';
import type { Db } from '#server/db/transaction';
import { onEachDatabase } from '#support/databases';

const now = 1_700_000_000;

async function isRevoked(db: Db, jti: string): Promise<boolean> {
  const rows = await db.selectFrom('revoked_token').where('jti', '=', jti).select('jti').execute();
  return rows.length > 0;
}

await onEachDatabase('revoked tokens', ({ open }) => {
  test('a token is found as soon as its revocation is stored, through every connection', async () => {
    await using database = await open();
    const other = await database.connectAgain();

    expect(await isRevoked(other.db, 'jti-1')).toBe(false);

    await revokeAccessToken(database.db, { id: 'jti-1', expiresAt: now + 10 }, now);

    expect(await isRevoked(other.db, 'jti-1')).toBe(true);
    expect(await isRevoked(other.db, 'jti-2')).toBe(false);
  });

  test('revoking a token twice succeeds', async () => {
    await using database = await open();
    await revokeAccessToken(database.db, { id: 'jti-1', expiresAt: now + 10 }, now);
    await revokeAccessToken(database.db, { id: 'jti-1', expiresAt: now + 10 }, now + 1);

    expect(await isRevoked(database.db, 'jti-1')).toBe(true);
  });

  test('a token is deleted only after it has expired', async () => {
    await using database = await open();
    const { db } = database;
    await revokeAccessToken(db, { id: 'jti-1', expiresAt: now + 10 }, now);
    await revokeAccessToken(db, { id: 'jti-2', expiresAt: now + 99 }, now + 10);

    expect(await isRevoked(db, 'jti-1')).toBe(true);

    await revokeAccessToken(db, { id: 'jti-3', expiresAt: now + 99 }, now + 11);

    expect(await isRevoked(db, 'jti-1')).toBe(false);
    expect(await isRevoked(db, 'jti-2')).toBe(true);
  });
});
