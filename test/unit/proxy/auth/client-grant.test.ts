import { expect, test } from 'vitest';
import { clientGrant } from '#proxy/auth/grants';
import { inKeychain } from '#proxy/config/secret';
import { clientSecretAccount } from '#proxy/keychain/secret-accounts';
import { memorySecretStore } from '#proxy/keychain/secret-store';
import { fakeClock } from '#support/fake-clock';
import { web } from '#support/web';

const url = 'https://mcp.example.com/mcp/acme/sales';
const clientSecret = 'secret of the keychain';

/** A server that trusts the issuer `one`, or the one that a test sets in `trusted`, and a client secret in the keychain. */
async function company() {
  const trusted = { issuer: 'https://one.example' };
  const pages = (issuer: string) => ({
    [`${issuer}/.well-known/oauth-authorization-server`]: {
      json: { issuer, token_endpoint: `${issuer}/token` },
    },
    [`${issuer}/token`]: { json: { access_token: 'a', token_type: 'Bearer' } },
  });
  const { http, asked, requests } = web({
    [url]: { status: 401 },
    'https://mcp.example.com/.well-known/oauth-protected-resource/mcp/acme/sales': () => ({
      json: { resource: url, authorization_servers: [trusted.issuer] },
    }),
    ...pages('https://one.example'),
    ...pages('https://two.example'),
  });
  const store = memorySecretStore();
  await store.set(clientSecretAccount(url, 'c'), JSON.stringify({ clientSecret }));
  const ports = {
    http,
    clock: fakeClock(),
    store,
    readPrivateKey: () => Promise.reject(new Error('no key')),
  };
  const credentials = {
    kind: 'client_credentials' as const,
    clientId: 'c',
    clientSecret: inKeychain,
  };
  const grant = async (rebind = false, to = url) =>
    clientGrant({ url: to, credentials }, { wider: false }, ports, rebind);
  return { trusted, grant, asked, requests };
}

test('client secret: the one from the keychain is sent in place of the placeholder', async () => {
  const { grant, requests } = await company();

  expect(await grant()).toMatchObject({ accessToken: 'a', issuer: 'https://one.example' });
  const basic = Buffer.from(`c:${clientSecret.replaceAll(' ', '+')}`).toString('base64');
  expect(requests.at(-1)?.headers['authorization']).toBe(`Basic ${basic}`);
});

test('client secret: it is sent only to the issuer of its first use, unless the user allows another', async () => {
  const { trusted, grant, asked } = await company();
  await grant();
  trusted.issuer = 'https://two.example';

  await expect(grant()).rejects.toMatchObject({ code: 'issuer' });
  expect(asked()).not.toContain('https://two.example/token');
  expect(await grant(true)).toMatchObject({ issuer: 'https://two.example' });
  expect(await grant()).toMatchObject({ issuer: 'https://two.example' });
});

test('client secret: it is sent only for its own server URL', async () => {
  const { grant } = await company();

  await expect(grant(false, `${url}2`)).rejects.toMatchObject({ code: 'client' });
});
