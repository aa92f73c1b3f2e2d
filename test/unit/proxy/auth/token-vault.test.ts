import { expect, test } from 'vitest';
import { memorySecretStore, SecretStoreError } from '#proxy/keychain/secret-store';
import { tokenVault } from '#proxy/auth/token-vault';

const token = { accessToken: 'a', obtainedAt: 0, issuer: 'https://i', published: true };
const refresh = { refreshToken: 'r', clientId: 'c' };

/** A vault, with the order in which it writes and removes; a refresh token `burnt` cannot be stored. */
function watchedVault() {
  const order: string[] = [];
  const memory = memorySecretStore();
  const store = {
    ...memory,
    set: (account: string, secret: string) => {
      order.push(account);
      return account.startsWith('refresh') && secret.includes('burnt')
        ? Promise.reject(new SecretStoreError('locked', 'locked'))
        : memory.set(account, secret);
    },
    remove: (account: string) => {
      order.push(`no ${account}`);
      return memory.remove(account);
    },
  };
  return { order, vault: tokenVault(store, 'access token x') };
}

test('token vault: a later refresh token is stored before the access token, and a failure rejects', async () => {
  const { order, vault } = watchedVault();

  await vault.save({ ...token, refresh });
  order.length = 0;
  await vault.save({ ...token, refresh });
  const failing = vault.save({ ...token, refresh: { ...refresh, refreshToken: 'burnt' } });

  await expect(failing).rejects.toMatchObject({ code: 'locked' });
  expect(order.slice(0, 2)).toEqual(['refresh token x https://i', 'access token x']);
  expect(order).toHaveLength(3);
});

test('token vault: a first access token is stored before the refresh token, which is found only through it', async () => {
  const { vault, order } = watchedVault();
  const failing = vault.save({ ...token, refresh: { ...refresh, refreshToken: 'burnt' } });

  await expect(failing).rejects.toMatchObject({ code: 'locked' });
  expect(await vault.access()).toMatchObject({ issuer: 'https://i' });
  expect(order).toEqual(['access token x', 'refresh token x https://i']);
});

test('token vault: tokens of another issuer replace both', async () => {
  const { vault, order } = watchedVault();
  await vault.save({ ...token, refresh });
  order.length = 0;
  await vault.save({ ...token, issuer: 'https://j', refresh });

  expect(order).toEqual([
    'no refresh token x https://i',
    'access token x',
    'refresh token x https://j',
  ]);
  expect(await vault.refresh('https://i')).toBeUndefined();
});

test('token vault: a refresh token belongs to its issuer', async () => {
  const vault = tokenVault(memorySecretStore(), 'access token x');
  await vault.save({ ...token, refresh });

  expect(await vault.refresh('https://i')).toEqual(refresh);
  expect(await vault.refresh('https://other')).toBeUndefined();
});

test('token vault: a refresh token that was replaced meanwhile is not deleted', async () => {
  const vault = tokenVault(memorySecretStore(), 'access token x');
  await vault.save({ ...token, refresh });

  await vault.dropRefresh('https://i', 'older');
  const kept = await vault.refresh('https://i');
  await vault.dropRefresh('https://i', 'r');

  expect(kept).toEqual(refresh);
  expect(await vault.refresh('https://i')).toBeUndefined();
});

test('token vault: an ended access token keeps its issuer and scopes; one that was replaced stays valid', async () => {
  const vault = tokenVault(memorySecretStore(), 'access token x');
  await vault.save({ ...token, scope: 's' });

  await vault.endAccess('older', 5);
  const kept = await vault.access();
  await vault.endAccess('a', 5);

  expect(kept).toEqual({ ...token, scope: 's' });
  expect(await vault.access()).toEqual({ ...token, scope: 's', expiresAt: 5 });
});

test('token vault: clear removes both tokens', async () => {
  const vault = tokenVault(memorySecretStore(), 'access token x');
  await vault.save({ ...token, refresh });

  expect(await vault.clear()).toBe(true);
  expect(await vault.access()).toBeUndefined();
  expect(await vault.refresh('https://i')).toBeUndefined();
  expect(await vault.clear()).toBe(false);
});
