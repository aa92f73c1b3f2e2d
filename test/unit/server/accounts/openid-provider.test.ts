import { createServer, type Server } from 'node:http';

import { Provider } from 'oidc-provider';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';

import { type IdentityProvider, openIdProvider } from '#server/accounts/openid-provider';
import { type ProviderChecking, usualChecking } from '#server/model/provider-checks';
import { freePort, listen } from '#support/loopback';
import { consentAt } from '#support/provider-consent';

const secret = 'the secret of latchkey there';
const redirectUri = 'http://localhost:1/callback';
const checks = { state: 's', nonce: 'n'.repeat(43), codeVerifier: 'v'.repeat(43) };
const removed = new Set<string>();
let issuer: string;
let server: Server;

/** An independent provider, which issues a refresh token at each sign-in and replaces it at each use. */
beforeAll(async () => {
  const port = await freePort();
  issuer = `http://127.0.0.1:${port}`;
  const oidc = new Provider(issuer, {
    clients: [
      {
        client_id: 'latchkey',
        client_secret: secret,
        redirect_uris: [redirectUri],
        grant_types: ['authorization_code', 'refresh_token'],
      },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    pkce: { required: () => true },
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    findAccount: (_ctx, sub) =>
      removed.has(sub)
        ? undefined
        : {
            accountId: sub,
            claims: () => ({ sub, email: `${sub}@example.com`, email_verified: true }),
          },
  });
  server = createServer(oidc.callback()).listen(port, '127.0.0.1');
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const providerWith = (but: Partial<ProviderChecking> = {}) =>
  openIdProvider({
    issuer,
    clientId: 'latchkey',
    clientSecret: secret,
    name: 'Acme ID',
    redirectUri,
    groupsClaim: 'groups',
    scopes: [],
    trustsEmail: false,
    checking: { ...usualChecking, ...but },
  });
const signedIn = async (provider: IdentityProvider, login: string) => {
  const page = await provider.begin(checks);
  return {
    scope: page.searchParams.get('scope'),
    identity: await provider.finish(await consentAt(page.href, { issuer, login }), checks),
  };
};

test('173: provider: a refresh token tells whether a person is still there, and another person’s does not', async () => {
  const provider = providerWith();
  const { identity, scope } = await signedIn(provider, 'dana');
  const first = await provider.ask(identity.refreshToken ?? '', 'dana');
  const next = first.outcome === 'known' ? first.refreshToken : undefined;
  const asSomebodyElse = await provider.ask(next ?? '', 'lee');
  const again = await signedIn(provider, 'dana');
  removed.add('dana');
  const gone = await provider.ask(again.identity.refreshToken ?? '', 'dana');

  expect(scope).toBe('openid email offline_access');
  expect(first.outcome).toBe('known');
  expect(next).not.toBe(identity.refreshToken);
  expect(asSomebodyElse).toMatchObject({ outcome: 'failed', fault: { code: 'token-invalid' } });
  expect(gone).toEqual({ outcome: 'removed' });
});

test('provider: without checks, no refresh token is asked for or taken', async () => {
  const { identity, scope } = await signedIn(providerWith({ checkAgain: 'never' }), 'lee');

  expect(scope).toBe('openid email');
  expect(identity.refreshToken).toBeUndefined();
});

test.each<[string, string, ProviderChecking['checkAgain'], object, object]>([
  ['with offline_access', 'https://id.example', 'auto', {}, { scope: true, offline: false }],
  ['never', 'https://id.example', 'never', {}, { scope: false, offline: false }],
  [
    'not where logouts are announced',
    'https://id.example',
    'auto',
    { backchannel_logout_supported: true },
    { scope: false, offline: false },
  ],
  [
    'always, although logouts are announced',
    'https://id.example',
    'always',
    { backchannel_logout_supported: true },
    { scope: true, offline: false },
  ],
  [
    'without the scope, if the provider does not have it',
    'https://id.example',
    'auto',
    { scopes_supported: ['openid'] },
    { scope: false, offline: false },
  ],
  [
    'from Google with a parameter of its own',
    'https://accounts.google.com',
    'auto',
    { scopes_supported: ['openid'] },
    { scope: false, offline: true },
  ],
])('provider: a refresh token is asked for %s', async (_, from, checkAgain, more, expected) => {
  const metadata = {
    issuer: from,
    authorization_endpoint: `${from}/authorize`,
    token_endpoint: `${from}/token`,
    jwks_uri: `${from}/keys`,
    scopes_supported: ['openid', 'email', 'offline_access'],
    ...more,
  };
  const provider = openIdProvider({
    issuer: from,
    clientId: 'latchkey',
    clientSecret: secret,
    name: 'Acme ID',
    redirectUri,
    groupsClaim: 'groups',
    scopes: [],
    trustsEmail: false,
    checking: { ...usualChecking, checkAgain },
    fetch: async () => Response.json(metadata),
  });
  const { searchParams: asked } = await provider.begin(checks);

  expect({
    scope: asked.get('scope')?.includes('offline_access'),
    offline: asked.get('access_type') === 'offline',
  }).toEqual(expected);
});

test('provider: one that does not answer is no answer about a person', async () => {
  const provider = openIdProvider({
    issuer: `http://127.0.0.1:${await freePort()}`,
    clientId: 'latchkey',
    clientSecret: secret,
    name: 'Acme ID',
    redirectUri,
    groupsClaim: 'groups',
    scopes: [],
    trustsEmail: false,
    checking: usualChecking,
  });

  expect(await provider.ask('rt', 'dana')).toMatchObject({
    outcome: 'failed',
    fault: { code: 'unreachable' },
  });
  expect(await provider.readLogout('a token', 1)).toMatchObject({ outcome: 'invalid' });
});

test.each(['configuration', 'keys'] as const)(
  'provider: tokens that arrive while its %s cannot be read let them be read once in thirty seconds',
  async (broken) => {
    const paths: string[] = [];
    let own = '';
    const site = createServer((request, response) => {
      const path = request.url ?? '';
      paths.push(path);
      const isBroken = broken === 'configuration' || path === '/keys';
      response.writeHead(isBroken ? 500 : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ issuer: own, jwks_uri: `${own}/keys` }));
    });
    onTestFinished(() => {
      site.closeAllConnections();
      site.close();
    });
    own = `http://127.0.0.1:${await listen(site)}`;
    const provider = openIdProvider({
      issuer: own,
      clientId: 'latchkey',
      clientSecret: secret,
      name: 'Acme ID',
      redirectUri,
      groupsClaim: 'groups',
      scopes: [],
      trustsEmail: false,
      checking: usualChecking,
    });
    const header = Buffer.from(JSON.stringify({ alg: 'RS256', typ: 'logout+jwt' }));
    const token = `${header.toString('base64url')}.e30.AAAA`;
    const readings = [];
    for (const now of [1000, 1000, 1029]) readings.push(await provider.readLogout(token, now));
    const path = broken === 'keys' ? '/keys' : '/.well-known/openid-configuration';
    const asked = () => paths.filter((one) => one === path).length;
    const before = asked();
    await provider.readLogout(token, 1030);

    expect(readings.map(({ outcome }) => outcome)).toEqual(['invalid', 'invalid', 'invalid']);
    expect([before, asked()]).toEqual([1, 2]);
  },
);
