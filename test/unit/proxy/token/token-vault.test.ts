import { expect, test } from 'vitest';
import { memorySecretStore } from '#proxy/keychain/memory-secret-store';
import { SecretStoreError } from '#proxy/keychain/secret-store';
import { tokenVault } from '#proxy/token/token-vault';

const token = { accessToken: 'a', obtainedAt: 0, issuer: 'https://i', published: true };
const refresh = { refreshToken: 'r', clientId: 'c' };

test('the refresh token is on disk before the access token, and a failure shows', async () => {
  const order: string[] = [];
  const memory = memorySecretStore();
  const vault = tokenVault(
    {
      ...memory,
      set: (account, secret) => {
        order.push(account);
        return account.startsWith('refresh') && secret.includes('burnt')
          ? Promise.reject(new SecretStoreError('locked', 'locked'))
          : memory.set(account, secret);
      },
    },
    'access token x',
  );

  await vault.save({ ...token, refresh });
  const failing = vault.save({ ...token, refresh: { ...refresh, refreshToken: 'burnt' } });

  await expect(failing).rejects.toMatchObject({ code: 'locked' });
  expect(order.slice(0, 2)).toEqual(['refresh token x https://i', 'access token x']);
  expect(order).toHaveLength(3);
});

test('a refresh token belongs to its issuer', async () => {
  const vault = tokenVault(memorySecretStore(), 'access token x');
  await vault.save({ ...token, refresh });

  expect(await vault.refresh('https://i')).toEqual(refresh);
  expect(await vault.refresh('https://other')).toBeUndefined();
});

test('a refresh token that somebody has replaced is not dropped', async () => {
  const vault = tokenVault(memorySecretStore(), 'access token x');
  await vault.save({ ...token, refresh });

  await vault.dropRefresh('https://i', 'older');
  const kept = await vault.refresh('https://i');
  await vault.dropRefresh('https://i', 'r');

  expect(kept).toEqual(refresh);
  expect(await vault.refresh('https://i')).toBeUndefined();
});

test('an access token that is over keeps its issuer and scopes; one that was replaced lives on', async () => {
  const vault = tokenVault(memorySecretStore(), 'access token x');
  await vault.save({ ...token, scope: 's' });

  await vault.endAccess('older', 5);
  const kept = await vault.access();
  await vault.endAccess('a', 5);

  expect(kept).toEqual({ ...token, scope: 's' });
  expect(await vault.access()).toEqual({ ...token, scope: 's', expiresAt: 5 });
});

test('clearing leaves nothing', async () => {
  const vault = tokenVault(memorySecretStore(), 'access token x');
  await vault.save({ ...token, refresh });

  expect(await vault.clear()).toBe(true);
  expect(await vault.access()).toBeUndefined();
  expect(await vault.refresh('https://i')).toBeUndefined();
  expect(await vault.clear()).toBe(false);
});
