import { expect, test } from 'vitest';
import { tokenAccount } from '#proxy/token/token-account';

const purpose = {
  url: 'https://a.example/mcp',
  issuer: undefined,
  clientId: 'c',
  scopes: ['x', 'y'],
};

test('another server, client, issuer, set of scopes, name or resource is another account; their order is not', async () => {
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

test('a long one is shortened to what every platform takes, and stays its own', async () => {
  const long = (end: string) => ({ ...purpose, url: `https://a.example/${'p'.repeat(900)}${end}` });
  const [one, two] = await Promise.all([tokenAccount(long('1')), tokenAccount(long('2'))]);

  expect(one.length).toBeLessThan(500);
  expect(one).not.toBe(two);
});
