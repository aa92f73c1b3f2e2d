import { expect, test } from 'vitest';
import { isClientSecretAccount, clientSecretAccount } from '#proxy/keychain/secret-accounts';
import { keptVariables } from '#proxy/connections/import-entry';
import { sentSecrets, storeSecrets } from '#proxy/connections/stored-secrets';
import { ConfigurationError } from '#proxy/config/errors';
import { inKeychain } from '#proxy/config/secret';
import type { Connection } from '#proxy/config/connection';
import { memorySecretStore } from '#proxy/keychain/secret-store';
import { words } from '#proxy/errors';
import { rotatable } from '#proxy/connections/rotate-secret';

const apiKeySecret = `mcp_${'k'.repeat(36)}`;
const signIn: Connection['credentials'] = { kind: 'authorization_code' };
const connection: Connection = {
  name: 'work',
  account: 'work',
  url: 'https://cloud.example.com/mcp/acme/sales',
  source: 'connections.json',
  credentials: { kind: 'api_key', apiKeySecret: inKeychain },
  headers: { 'x-team': 'red', 'x-pass': inKeychain },
};

test('secrets in the keychain: a key and a header are restored to their places', async () => {
  const store = memorySecretStore();
  await storeSecrets(connection, { apiKeySecret, headerSecrets: { 'x-pass': 'open' } }, store);

  expect(await sentSecrets(connection, store)).toMatchObject({
    apiKeySecret,
    headers: { 'x-team': 'red', 'x-pass': 'open' },
  });
});

test.each([
  ['another URL', { url: 'https://evil.example/mcp' }],
  ['another path of the same host', { url: 'https://cloud.example.com/mcp/acme/support' }],
  ['another port of the same host', { url: 'https://cloud.example.com:8443/mcp/acme/sales' }],
  ['another account', { account: 'home' }],
])('secrets in the keychain: they are not used for %s', async (_, other) => {
  const store = memorySecretStore();
  await storeSecrets(connection, { apiKeySecret, headerSecrets: { 'x-pass': 'open' } }, store);
  const wantsKey = { ...connection, ...other, headers: {} };
  const wantsHeader = { ...connection, ...other, credentials: signIn };

  for (const wanting of [wantsKey, wantsHeader]) {
    const refused = sentSecrets(wanting, store);

    await expect(refused).rejects.toThrow(ConfigurationError);
    await expect(refused).rejects.toThrow('is not in the keychain');
  }
});

test('secrets in the keychain: two clients of one long URL have two accounts, short enough for Windows', async () => {
  const store = memorySecretStore();
  const url = `https://cloud.example.com/${'long/'.repeat(100)}mcp`;
  const by = (clientId: string, clientSecret?: string): Connection => ({
    ...connection,
    url,
    credentials: { kind: 'client_credentials', clientId, clientSecret: clientSecret ?? inKeychain },
  });
  await storeSecrets(by('one'), { clientSecret: 'first' }, store);
  await storeSecrets(by('two'), { clientSecret: 'second' }, store);
  const accounts = [clientSecretAccount(url, 'one'), clientSecretAccount(url, 'two')];

  expect(await store.get(accounts[0] ?? '')).toContain('first');
  expect(await store.get(accounts[1] ?? '')).toContain('second');
  expect(accounts.every((account) => account.length <= 400)).toBe(true);
  expect(accounts.every(isClientSecretAccount)).toBe(true);
});

test('import: of the variables for another program, those that look like secrets are named', () => {
  const env = {
    ACME_API_KEY: 'sk-acme',
    GITHUB_TOKEN: 'ghp_1',
    TOKEN_FROM_ELSEWHERE: '${env:TOKEN}',
    KEY_FILE: '/home/dana/key.pem',
    MAX_TOKENS: '4000',
    LOG_LEVEL: 'debug',
  };

  expect(keptVariables({ command: 'npx', args: ['-y', '@acme/mcp'], env })).toEqual([
    'ACME_API_KEY',
    'GITHUB_TOKEN',
  ]);
  expect(keptVariables({ command: 'latchkey', args: ['connect', 'sales'], env })).toEqual([]);
  expect(keptVariables({ url: 'https://mcp.example.com', env })).toEqual([]);
});

test.each([
  [
    'https://latchkey.example.com/mcp/acme/wiki',
    'https://latchkey.example.com/dashboard/acme/servers/wiki/account',
  ],
  ['https://mcp.example.com/mcp', undefined],
])('rotate: a personal sign-in to %s is told the page of its own key: %s', async (url, page) => {
  const credentials = { kind: 'authorization_code' as const };
  const person = { name: 'wiki', url, source: 'file', credentials };

  const error: unknown = await rotatable(person, memorySecretStore()).catch(
    (refusal: unknown) => refusal,
  );

  const { hint } = words(error);
  expect(hint).toMatch(/^a personal sign-in has no secret to rotate/);
  expect(/https:.*/.exec(hint)?.[0]).toBe(page);
});
