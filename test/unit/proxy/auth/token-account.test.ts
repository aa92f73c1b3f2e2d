import { expect, test } from 'vitest';
import { tokenAccount } from '#proxy/auth/token-vault';
import type { OAuthSettings } from '#proxy/config/oauth-fields';

const purpose = {
  url: 'https://a.example/mcp',
  credentials: { clientId: 'c', scopes: ['x', 'y'] },
};

const withCredentials = (credentials: Partial<OAuthSettings>) => ({
  ...purpose,
  credentials: { ...purpose.credentials, ...credentials },
});

test('token account: it differs by server, client, issuer, scopes in any order, name and resource', async () => {
  const accounts = await Promise.all(
    [
      purpose,
      { ...purpose, url: 'https://a.example/mcp/' },
      withCredentials({ clientId: 'd' }),
      withCredentials({ issuer: 'https://i.example' }),
      withCredentials({ scopes: ['x'] }),
      { ...purpose, account: 'work' },
      withCredentials({ resource: 'https://a.example/tenant' }),
    ].map(tokenAccount),
  );

  expect(new Set(accounts).size).toBe(7);
  expect(await tokenAccount(withCredentials({ scopes: ['y', 'x'] }))).toBe(accounts[0]);
});

test.each([
  [{ ...purpose, credentials: {} }, '["https://a.example/mcp","","",""]'],
  [purpose, '["https://a.example/mcp","c","x y",""]'],
  [{ ...purpose, account: 'work' }, '["https://a.example/mcp","c","x y","","work"]'],
  [withCredentials({ issuer: 'i', resource: '' }), '["https://a.example/mcp","c","x y","i","",""]'],
  [
    { ...withCredentials({ resource: 'r' }), account: 'work' },
    '["https://a.example/mcp","c","x y","","work","r"]',
  ],
])('token account: that of %j has the same name as in earlier versions', async (of, name) => {
  expect(await tokenAccount(of)).toBe(`access token ${name}`);
});

test('token account: a long name is shortened to the limit of every platform, and stays unique', async () => {
  const long = (end: string) => ({ ...purpose, url: `https://a.example/${'p'.repeat(900)}${end}` });
  const [one, two] = await Promise.all([tokenAccount(long('1')), tokenAccount(long('2'))]);

  expect(one.length).toBeLessThan(500);
  expect(one).not.toBe(two);
});
