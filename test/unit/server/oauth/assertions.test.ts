import { randomUUID } from 'node:crypto';

import { createLocalJWKSet } from 'jose';
import { expect, test } from 'vitest';

import { readAssertion, verifyAssertion } from '#server/oauth/assertions';
import type { KeySource } from '#server/oauth/issuer-keys';
import { assertionIssuer, type Signed } from '#support/assertion-issuer';
import { fakeClock } from '#support/fake-clock';

const audience = 'https://latchkey.example';
const source: KeySource = { type: 'url', url: 'https://id.example/keys' };

/** Verifies assertions of an issuer whose keys are known, and counts the assertions for which `jose` was asked. */
async function verifier(alg: string) {
  const issuer = await assertionIssuer({ alg });
  const clock = fakeClock();
  let keys: object = {};
  let asked = 0;
  const issuerKeys = {
    current: () => keys,
    keyOf: () => {
      asked += 1;
      return createLocalJWKSet({ keys: [...issuer.jwks.keys] });
    },
  };
  const sign = ({ claims = {}, header = {} }: Signed = {}, key = issuer.privateKey) => {
    const now = clock.now();
    const right = { sub: 'dana', aud: audience, iat: now, exp: now + 300, jti: randomUUID() };
    return issuer.sign({ claims: { ...right, ...claims }, header }, key);
  };
  const terms = { source, issuer: issuer.issuer, audiences: [audience], longestLifeSeconds: 3600 };
  const verify = async (text: string) => {
    try {
      await verifyAssertion(readAssertion(text), terms, { issuerKeys, clock });
      return 'verified';
    } catch (error) {
      return error instanceof Error ? error.message : '';
    }
  };
  return {
    issuer,
    clock,
    sign,
    verify,
    asked: () => asked,
    readAnew: () => void (keys = {}),
    [Symbol.asyncDispose]: () => issuer[Symbol.asyncDispose](),
  };
}

const refused = 'the assertion does not verify';
const algorithms = ['EdDSA', 'Ed25519', 'ES256', 'ES384', 'ES512', 'PS256', 'PS384', 'PS512'];

test.each([...algorithms, 'RS256', 'RS384', 'RS512'])(
  'assertion signed with %s: jose verifies the first, others with its header are verified without it, and none that was changed',
  async (alg) => {
    await using at = await verifier(alg);
    const [first, second, third] = [await at.sign(), await at.sign(), await at.sign()];
    const [header, , signature] = second.split('.');
    const changed = [header, third.split('.')[1], signature].join('.');

    expect([await at.verify(first), at.asked()]).toEqual(['verified', 1]);
    expect([await at.verify(second), await at.verify(third), at.asked()]).toEqual([
      'verified',
      'verified',
      1,
    ]);
    expect([await at.verify(changed), at.asked()]).toEqual([refused, 2]);
    expect(await at.verify(second.slice(0, -40))).toBe(refused);
    expect(await at.verify(`${second}AAAA`)).toBe(refused);
    expect(await at.verify(second.replace(/[^.]+$/, ''))).toBe('the assertion is not a signed JWT');
  },
);

test('assertion with a known header: its claims must still be right', async () => {
  await using at = await verifier('ES256');
  const of = async (claims: Record<string, unknown>) => at.verify(await at.sign({ claims }));
  await of({});
  const now = at.clock.now();

  expect(await of({ iss: 'https://evil.example' })).toBe(refused);
  expect(await of({ aud: 'https://evil.example' })).toBe('the assertion is for another audience');
  expect(await of({ exp: now - 31, iat: now - 60 })).toBe('the assertion has expired');
  expect(await of({ exp: now - 29, iat: now - 60 })).toBe('verified');
  expect(await of({ nbf: now + 31 })).toBe(refused);
  expect(await of({ nbf: now + 29 })).toBe('verified');
  expect(await of({ nbf: 'tomorrow' })).toBe(refused);
  expect(await of({ nbf: null })).toBe(refused);
});

test('assertion with a known header: it counts only for the keys that it was verified with', async () => {
  await using at = await verifier('ES256');
  await at.verify(await at.sign());
  const text = await at.sign();
  const stolen = at.issuer.privateKey;
  const { kid } = at.issuer.jwks.keys[0] ?? {};
  await at.issuer.rotate();
  at.readAnew();

  expect(await at.verify(text)).toBe(refused);
  expect(await at.verify(await at.sign({ header: { kid } }, stolen))).toBe(refused);
  expect([await at.verify(await at.sign()), at.asked()]).toEqual(['verified', 4]);
});

test('assertion with another header: jose decides, also when one with a known header came before', async () => {
  await using at = await verifier('RS256');
  await at.verify(await at.sign());

  expect(await at.verify(await at.sign({ header: { typ: 'JWT' } }))).toBe('verified');
  expect(await at.verify(await at.sign({ header: { kid: 'unknown' } }))).toBe(refused);
  expect(at.asked()).toBe(3);
});

test('assertion of which nothing verified: its header is not known', async () => {
  await using at = await verifier('ES256');
  await using stranger = await assertionIssuer();
  const forged = await at.sign({}, stranger.privateKey);

  expect([await at.verify(forged), await at.verify(forged), at.asked()]).toEqual([
    refused,
    refused,
    2,
  ]);
});
