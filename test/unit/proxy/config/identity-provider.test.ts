import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readIdentityProvider } from '#proxy/config/identity-provider';
import { learnProvider, managedFile, providerIn } from '#proxy/config/provider-files';
import { temporaryFolder } from '#support/temporary-folder';

const issuer = 'https://login.example.com/acme';

test.each([
  ['a text', `latchkey@${issuer}`, { issuer, clientId: 'latchkey' }],
  [
    'a client id that is a URL',
    `https://a@b.example/c@${issuer}`,
    { issuer, clientId: 'https://a@b.example/c' },
  ],
  ['an object', { issuer, clientId: 'c' }, { issuer, clientId: 'c' }],
  [
    'a secret in a file',
    { issuer, clientId: 'c', clientSecret: 'file:/run/secret' },
    { issuer, clientId: 'c', clientSecret: 'file:/run/secret' },
  ],
])('identity provider: %s', (_, value, expected) => {
  expect(readIdentityProvider(value, (problem) => expect.unreachable(problem))).toEqual(expected);
});

test.each([
  ['no client', issuer],
  ['http to another computer', 'c@http://login.example.com'],
  ['a query', `c@${issuer}?x=1`],
  ['another type', 7],
  ['a written secret', { issuer, clientId: 'c', clientSecret: 'hunter2hunter2' }],
  ['a relative file', { issuer, clientId: 'c', clientSecret: 'file:secret' }],
])('identity provider: %s is a problem that does not quote the value', (_, value) => {
  const problems: string[] = [];

  expect(readIdentityProvider(value, (problem) => problems.push(problem))).toBeUndefined();
  expect(problems).toHaveLength(1);
  expect(problems.join()).not.toMatch(/hunter2|login/);
});

test('managed file: it is in a folder that only administrators can write to', () => {
  const at = (platform: NodeJS.Platform) => managedFile({ platform, env: {} });

  expect([at('linux'), at('darwin'), at('win32')]).toEqual([
    '/etc/latchkey/managed.json',
    '/Library/Application Support/Latchkey/managed.json',
    'C:\\Program Files\\Latchkey\\managed.json',
  ]);
});

/** The provider that a managed file with this text names for a server. */
async function managed(text: string | undefined, url: string) {
  await using folder = await temporaryFolder('managed');
  const file = join(folder.path, 'managed.json');
  await mkdir(folder.path, { recursive: true });
  if (text !== undefined) await writeFile(file, text);
  return await providerIn(file, url);
}

test('managed file: the first provider for the server counts, and only its own paths', async () => {
  const text = JSON.stringify({
    identityProviders: [
      { issuer, clientId: 'sales', servers: ['https://mcp.example.com/mcp/acme'] },
      { issuer, clientId: 'rest', servers: ['https://other.example.com'] },
    ],
  });

  expect(await managed(text, 'https://mcp.example.com/mcp/acme/sales')).toMatchObject({
    clientId: 'sales',
  });
  expect(await managed(text, 'https://other.example.com/mcp')).toMatchObject({ clientId: 'rest' });
  expect(await managed(text, 'https://mcp.example.com/mcp/acme-2/sales')).toBeUndefined();
  expect(await managed(text, 'https://mcp.example.com.evil.example/mcp/acme')).toBeUndefined();
});

test('managed file: without a list of servers, the provider is for all', async () => {
  const text = JSON.stringify({ identityProviders: [{ issuer, clientId: 'c' }] });

  expect(await managed(text, 'https://any.example/mcp')).toEqual({ issuer, clientId: 'c' });
});

test('managed file: none is fine, and an invalid one is an error that names it', async () => {
  expect(await managed(undefined, 'https://any.example/mcp')).toBeUndefined();
  await expect(managed('{', 'https://any.example/mcp')).rejects.toThrow(/managed\.json/);
  await expect(
    managed('{"identityProviders":[{"issuer":"http://x"}]}', 'https://any.example/mcp'),
  ).rejects.toThrow(/identityProviders\[0\]/);
});

const sales = 'https://mcp.example.com/mcp/acme/sales';
const acme = ['https://mcp.example.com/mcp/acme'];

/** The provider that we know for `about` after the server `sales` named these providers, one after the other. */
async function learned(
  about: string,
  ...told: ({ clientId: string; servers: string[] } | undefined)[]
) {
  await using folder = await temporaryFolder('learned');
  const file = join(folder.path, 'state', 'identity-providers.json');
  for (const one of told)
    await learnProvider(
      file,
      sales,
      one && { provider: { issuer, clientId: one.clientId }, servers: one.servers },
    );
  return await providerIn(file, about);
}

test('named provider: it is for the servers that the server names, and the latest counts', async () => {
  const support = 'https://mcp.example.com/mcp/acme/support';

  expect(await learned(support, { clientId: 'a', servers: acme })).toEqual({
    issuer,
    clientId: 'a',
  });
  expect(
    await learned(support, { clientId: 'a', servers: acme }, { clientId: 'b', servers: acme }),
  ).toEqual({ issuer, clientId: 'b' });
});

test('named provider: a server speaks for no other origin, and not for others alone', async () => {
  const other = 'https://other.example.com/mcp';

  expect(
    await learned(other, { clientId: 'a', servers: [...acme, 'https://other.example.com'] }),
  ).toBeUndefined();
  expect(
    await learned('https://mcp.example.com/mcp/rival/x', {
      clientId: 'a',
      servers: ['https://mcp.example.com/mcp/rival'],
    }),
  ).toBeUndefined();
});

test('named provider: it is forgotten once the server names none to the person, and others are not', async () => {
  const other = 'https://mcp.example.com/mcp/other/x';
  const both = { clientId: 'a', servers: [...acme, 'https://mcp.example.com/mcp/other'] };

  expect(await learned(sales, { clientId: 'a', servers: acme }, undefined)).toBeUndefined();
  expect(await learned(other, both, undefined)).toBeUndefined();
  expect(await learned(sales, undefined)).toBeUndefined();
});
