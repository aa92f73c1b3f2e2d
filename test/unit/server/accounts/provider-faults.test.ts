import { afterAll, beforeAll, expect, test } from 'vitest';

import { openIdProvider, type OpenIdOptions } from '#server/accounts/openid-provider';
import { providerFault } from '#server/accounts/provider-faults';
import { freePort } from '#support/loopback';
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
