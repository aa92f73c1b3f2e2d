import { describe, expect, test } from 'vitest';
import { storeAdapters } from '#support/store-adapters';

const now = 1_700_000_000;

describe.each(storeAdapters)('a RevokedTokenStore in $name', ({ open }) => {
  test('finds a token revoked once that is done, through every connection', async () => {
    await using database = await open();
    const other = await database.connectAgain();

    expect(await other.revokedTokens.isRevoked('jti-1')).toBe(false);

    await database.revokedTokens.revoke({ id: 'jti-1', expiresAt: now + 10 }, now);

    expect(await other.revokedTokens.isRevoked('jti-1')).toBe(true);
    expect(await other.revokedTokens.isRevoked('jti-2')).toBe(false);
  });

  test('takes a token that is revoked already', async () => {
    await using database = await open();
    await database.revokedTokens.revoke({ id: 'jti-1', expiresAt: now + 10 }, now);
    await database.revokedTokens.revoke({ id: 'jti-1', expiresAt: now + 10 }, now + 1);

    expect(await database.revokedTokens.isRevoked('jti-1')).toBe(true);
  });

  test('forgets a token only after it has expired anyway', async () => {
    await using database = await open();
    const { revokedTokens } = database;
    await revokedTokens.revoke({ id: 'jti-1', expiresAt: now + 10 }, now);
    await revokedTokens.revoke({ id: 'jti-2', expiresAt: now + 99 }, now + 10);

    expect(await revokedTokens.isRevoked('jti-1')).toBe(true);

    await revokedTokens.revoke({ id: 'jti-3', expiresAt: now + 99 }, now + 11);

    expect(await revokedTokens.isRevoked('jti-1')).toBe(false);
    expect(await revokedTokens.isRevoked('jti-2')).toBe(true);
  });
});
