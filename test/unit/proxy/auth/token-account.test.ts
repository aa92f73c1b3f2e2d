import { expect, test } from 'vitest';
import { tokenAccount } from '#proxy/auth/token-vault';

const purpose = {
  url: 'https://a.example/mcp',
  issuer: undefined,
  clientId: 'c',
  scopes: ['x', 'y'],
};

test('token account: differs by server, client, issuer, scopes, name and resource, whatever the scopes’ order', async () => {
  const accounts = await Promise.all(
    [
      purpose,
      { ...purpose, url: 'https://a.example/mcp/' },
      { ...purpose, clientId: 'd' },
      { ...purpose, issuer: 'https://i.example' },
      { ...purpose, scopes: ['x'] },
      { ...purpose, account: 'work' },
      { ...purpose, resource: 'https://a.example/tenant' },
    ].map(tokenAccount),
  );

  expect(new Set(accounts).size).toBe(7);
  expect(await tokenAccount({ ...purpose, scopes: ['y', 'x'] })).toBe(accounts[0]);
});

test('token account: a long one is shortened to what every platform accepts, and stays unique', async () => {
  const long = (end: string) => ({ ...purpose, url: `https://a.example/${'p'.repeat(900)}${end}` });
  const [one, two] = await Promise.all([tokenAccount(long('1')), tokenAccount(long('2'))]);

  expect(one.length).toBeLessThan(500);
  expect(one).not.toBe(two);
});
