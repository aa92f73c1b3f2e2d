import { expect, test } from 'vitest';
import { bindSecret } from '#proxy/auth/client-authentication';
import { clientSecretAccount } from '#proxy/keychain/secret-accounts';
import { memorySecretStore } from '#proxy/keychain/secret-store';

const url = 'https://acme.example/mcp';
const account = clientSecretAccount(url, 'client_1');
const issuer = 'https://acme.example';

test('client secret: binding it to an issuer does not overwrite a secret that replaced it meanwhile', async () => {
  const store = memorySecretStore();
  const client = { clientId: 'client_1', clientSecret: 'old' };
  await store.set(account, JSON.stringify({ clientSecret: 'old' }));
  await bindSecret(url, client, issuer, store);
  const bound = await store.get(account);
  await store.set(account, JSON.stringify({ clientSecret: 'new' }));
  await bindSecret(url, client, issuer, store);

  expect(bound).toBe(JSON.stringify({ clientSecret: 'old', issuer }));
  expect(await store.get(account)).toBe(JSON.stringify({ clientSecret: 'new' }));
});
