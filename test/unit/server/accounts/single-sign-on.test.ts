import { createHmac, randomBytes } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';

import { afterAll, beforeAll, expect, test } from 'vitest';

import type { SignInChecks, UpstreamIdentity } from '#server/accounts/openid-provider';
import { randomToken } from '#server/accounts/sessions';
import {
  beginUpstreamSignIn,
  finishUpstreamSignIn,
  upstreamNext,
} from '#server/accounts/single-sign-on';
import { masterKey } from '#server/secrets/master-key';
import type { OpenStores } from '#server/app/stores';
import { openDatabase } from '#support/open-database';
import { turnedClock } from '#support/turned-clock';

const clock = turnedClock();
const sealing = masterKey(randomBytes(32));
const cookieToken = randomToken();
const identity: UpstreamIdentity = {
  issuer: 'https://id.example',
  subject: 'dana',
  email: 'dana@example.com',
  emailProof: 'verified',
  groups: [],
  issuedAt: 1_800_000_000,
  authentication: { amr: [] },
};
const seen: SignInChecks[] = [];
const provider = {
  name: 'Acme ID',
  issuer: identity.issuer,
  begin: async ({ state }: SignInChecks) => new URL(`https://id.example/authorize?state=${state}`),
  async finish(_callback: URL, checks: SignInChecks) {
    seen.push(checks);
    return identity;
  },
};
let stores: OpenStores & AsyncDisposable;
beforeAll(async () => {
  stores = await openDatabase();
});
afterAll(() => stores[Symbol.asyncDispose]());

const ports = () => ({ ...stores, provider, sealing, clock });
const begin = async (next = '/account') => {
  const there = await beginUpstreamSignIn({ purpose: 'sign-in', next, cookieToken }, ports());
  return there.searchParams.get('state') ?? '';
};
const comeBack = (state: string, token = cookieToken) => {
  const callback = new URL(`https://latchkey.example/callback?code=x&state=${state}`);
  return finishUpstreamSignIn({ callback, cookieToken: token }, ports());
};
const unknown = { code: 'state_unknown' };

test('84: a state is valid once, in its browser, for its purpose and its destination', async () => {
  const state = await begin();
  const [, challenge = '', tail = ''] = state.split('.');
  const elsewhere = Buffer.from('/dashboard').toString('base64url');

  await expect(comeBack(state, randomToken())).rejects.toMatchObject(unknown);
  await expect(comeBack(`link.${challenge}.${tail}`)).rejects.toMatchObject(unknown);
  await expect(comeBack(`sign-in.${challenge}.${elsewhere}`)).rejects.toMatchObject(unknown);
  expect(await comeBack(state)).toEqual({ identity, next: '/account' });
  await expect(comeBack(state)).rejects.toMatchObject(unknown);
});

test('a state carries the request for fifty servers, and is short enough for a URL', async () => {
  const resource = (at: number) =>
    `https://mcp.example.com/mcp/acme-gmbh/${randomToken().slice(0, 8)}-${at}`;
  const query = new URLSearchParams({
    client_id: 'https://mcp.example.com/oauth/clients/latchkey.json',
  });
  for (let at = 0; at < 50; at += 1) query.append('resource', resource(at));
  const next = `/oauth/consent?${query.toString()}`;
  const state = await begin(next);

  expect(state.length).toBeLessThan(2100);
  expect(await comeBack(state)).toMatchObject({ next });
});

test('a state leaves out a path that is too long, and one that unpacks to more is not read', async () => {
  const long = await begin(`/${'a'.repeat(16_384)}`);
  const unlike = await begin(`/${Array.from({ length: 100 }, randomToken).join('')}`);
  const bomb = deflateRawSync(`/${'a'.repeat(1_000_000)}`).toString('base64url');

  expect([upstreamNext(long), upstreamNext(unlike)]).toEqual(['/', '/']);
  expect([
    upstreamNext(`sign-in.x.${bomb}`),
    upstreamNext('sign-in.x.!'),
    upstreamNext(undefined),
  ]).toEqual(['/', '/', '/']);
});

test('a state is valid for the provider that it was made for', async () => {
  const first = { ...ports(), provider: { ...provider, id: 'idp_one' } };
  const other = { ...ports(), provider: { ...provider, id: 'idp_two' } };
  const start = { purpose: 'sign-in', next: '/account', cookieToken } as const;
  const state = (await beginUpstreamSignIn(start, first)).searchParams.get('state') ?? '';
  const callback = new URL(`https://latchkey.example/callback?code=x&state=${state}`);
  const answer = { callback, cookieToken };

  await expect(finishUpstreamSignIn(answer, other)).rejects.toMatchObject(unknown);
  await expect(finishUpstreamSignIn(answer, ports())).rejects.toMatchObject(unknown);
  expect(await finishUpstreamSignIn(answer, first)).toMatchObject({ identity });
});

test('91: a state made with the key of the cookie is refused', async () => {
  const tail = Buffer.from('/account').toString('base64url');
  const head = Buffer.alloc(22);
  head.writeUIntBE(clock.now() + 200, 0, 6);
  const mac = createHmac('sha256', cookieToken).update(`challenge provider sign-in ${tail}\0`);
  const forged = Buffer.concat([head, mac.update(head).digest().subarray(0, 16)]);

  await expect(comeBack(`sign-in.${forged.toString('base64url')}.${tail}`)).rejects.toMatchObject(
    unknown,
  );
});

test('91: nonce and code verifier cannot be derived from state and cookie', async () => {
  const state = await begin();
  await comeBack(state);
  const checks = seen.at(-1);
  const guess = (what: string) =>
    createHmac('sha256', cookieToken).update(`provider ${what}\0${state}`).digest('base64url');

  expect(checks?.state).toBe(state);
  expect(checks?.codeVerifier).toHaveLength(43);
  expect(checks?.nonce).not.toBe(checks?.codeVerifier);
  expect([checks?.nonce, checks?.codeVerifier]).not.toEqual([
    guess('nonce'),
    guess('code verifier'),
  ]);
});
