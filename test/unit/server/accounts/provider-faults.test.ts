import { afterAll, beforeAll, expect, test } from 'vitest';

import { openIdProvider, type OpenIdOptions } from '#server/accounts/openid-provider';
import { providerFault } from '#server/accounts/provider-faults';
import { freePort } from '#support/loopback';
import { guardedFetch } from '#server/outbound/guarded-fetch';
import { usualChecking } from '#server/model/provider-checks';
import { lyingProvider, type Lie } from '#support/lying-provider';

let lying: Awaited<ReturnType<typeof lyingProvider>>;
beforeAll(async () => {
  lying = await lyingProvider();
});
afterAll(() => lying[Symbol.asyncDispose]());

const checks = { state: 's', nonce: 'n'.repeat(43), codeVerifier: 'v'.repeat(43) };
const providerWith = (but: Partial<OpenIdOptions> = {}) =>
  openIdProvider({
    issuer: lying.issuer,
    clientId: 'latchkey',
    clientSecret: lying.clientSecret,
    name: 'Acme ID',
    redirectUri: 'https://latchkey.example/callback',
    groupsClaim: 'groups',
    scopes: [],
    trustsEmail: false,
    checking: usualChecking,
    ...but,
  });
const faultOf = async (lie: Lie) => {
  const provider = providerWith();
  const callback = lying.authorize(await provider.begin(checks), lie);
  return provider.finish(callback, checks).then(() => undefined, providerFault);
};

test('provider check: a provider with configuration and keys is ready', async () => {
  expect(await providerWith().check()).toEqual({ outcome: 'ready' });
});

test('provider check: a provider that does not answer is unreachable', async () => {
  const issuer = `http://127.0.0.1:${await freePort()}`;

  expect(await providerWith({ issuer }).check()).toEqual({
    outcome: 'failed',
    what: 'configuration',
    fault: { code: 'unreachable', detail: 'ECONNREFUSED' },
  });
});

test('provider check: the configuration of another issuer is not accepted', async () => {
  const issuer = lying.issuer.replace('127.0.0.1', 'localhost');

  expect(await providerWith({ issuer }).check()).toMatchObject({
    outcome: 'failed',
    what: 'configuration',
    fault: { code: 'other-issuer' },
  });
});

test.each<[string, Lie, string]>([
  ['an expired token', { claims: { exp: 1_700_000_000 } }, 'clock'],
  ['another audience', { claims: { aud: 'somebody-else' } }, 'token-invalid'],
  ['another nonce', { claims: { nonce: 'x' } }, 'token-invalid'],
  ['a key that is not published', { signature: 'other-key' }, 'token-invalid'],
])('provider fault: %s', async (_, lie, code) => {
  expect(await faultOf(lie)).toMatchObject({ code });
});

test('provider fault: a refused code differs from a refused sign-in, and no detail contains the secret', async () => {
  const provider = providerWith();
  const callback = lying.authorize(await provider.begin(checks));
  const other = { ...checks, codeVerifier: 'w'.repeat(43) };
  const denied = new URL('https://latchkey.example/callback?error=access_denied&state=s');

  const code = await provider.finish(callback, other).catch(providerFault);
  const signIn = await provider.finish(denied, checks).catch(providerFault);

  expect(code).toEqual({ code: 'code-refused', detail: 'invalid_grant' });
  expect(signIn).toEqual({ code: 'sign-in-refused', detail: 'access_denied' });
});

/** Requests as for a provider that an organization configured. */
const guarded = (allowedHosts: readonly string[]) =>
  guardedFetch({
    timeoutMs: 5000,
    maxBytes: 100_000,
    allowedHosts,
    resolve: () => Promise.reject(new Error('no test resolves a name')),
  });

test('provider of an organization: a private address is not requested, neither for the configuration nor for keys', async () => {
  const fault = { code: 'unreachable', detail: '127.0.0.1 is not on the public internet' };

  const closed = await providerWith({ fetch: guarded([]) }).check();

  expect(closed).toEqual({ outcome: 'failed', what: 'configuration', fault });
  expect(await providerWith({ fetch: guarded(['127.0.0.1']) }).check()).toEqual({
    outcome: 'ready',
  });
});

test('identity: how and when the person signed in is read from the ID token', async () => {
  const provider = providerWith({ fetch: guarded(['127.0.0.1']) });
  const claims = { sid: 's1', acr: 'urn:x', amr: ['pwd', 'mfa'], auth_time: 1_700_000_000 };
  const callback = lying.authorize(await provider.begin(checks), { claims });

  const { authentication } = await provider.finish(callback, checks);

  expect(authentication).toEqual({
    providerSession: 's1',
    acr: 'urn:x',
    amr: ['pwd', 'mfa'],
    authTime: 1_700_000_000,
  });
});

type Blunt = { readonly status: number; readonly error?: string };
const refresh = 'refresh_token';
const code = 'authorization_code';
const badRequest = { status: 400, error: 'invalid_request' };

test.each<[string, string, Record<string, Blunt>]>([
  ['400 without a body', 'refused', { [refresh]: { status: 400 } }],
  ['invalid_request', 'refused', { [refresh]: badRequest }],
  ['a code of its own', 'refused', { [refresh]: { status: 403, error: 'user_disabled' } }],
  ['400, as to everything', 'failed', { [refresh]: { status: 400 }, [code]: { status: 400 } }],
  ['invalid_request, as to everything', 'failed', { [refresh]: badRequest, [code]: badRequest }],
  [
    '400, and the client is refused',
    'failed',
    { [refresh]: { status: 400 }, [code]: { status: 401, error: 'invalid_client' } },
  ],
  [
    '400, and any code is accepted',
    'failed',
    { [refresh]: { status: 400 }, [code]: { status: 200 } },
  ],
  [
    '400, before it stops working',
    'failed',
    { [refresh]: { status: 400 }, [code]: { status: 503 } },
  ],
  ['503', 'failed', { [refresh]: { status: 503 } }],
  ['403 without a body', 'failed', { [refresh]: { status: 403 } }],
  ['404', 'failed', { [refresh]: { status: 404, error: 'not_found' } }],
  ['that there are too many requests', 'failed', { [refresh]: { status: 429, error: 'slow' } }],
  ['that the client is refused', 'failed', { [refresh]: { status: 400, error: 'invalid_client' } }],
  [
    'that the person has to act',
    'failed',
    { [refresh]: { status: 400, error: 'interaction_required' } },
  ],
])('173: provider: a refresh token that it answers with %s is %s', async (_, outcome, answers) => {
  const provider = providerWith();
  for (const [grant, answer] of Object.entries(answers)) lying.blunt.set(grant, answer);
  const answer = await provider.ask('rt of dana', 'dana there');
  lying.blunt.clear();

  expect(answer.outcome).toBe(outcome);
});
