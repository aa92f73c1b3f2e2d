import { jwtVerify } from 'jose';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { type IssuerKeys, issuerKeys, type KeySource } from '#server/oauth/issuer-keys';
import { assertionIssuer, type AssertionIssuer } from '#support/assertion-issuer';
import { fakeClock, type FakeClock } from '#support/fake-clock';

let clock: FakeClock;
let issuer: AssertionIssuer;
let keys: IssuerKeys;
let source: KeySource;
const noNames = () => Promise.reject(new Error('no test resolves a name'));

beforeEach(async () => {
  clock = fakeClock();
  issuer = await assertionIssuer();
  source = { type: 'issuer', issuer: issuer.issuer };
  keys = issuerKeys({ guard: { allowedHosts: ['127.0.0.1'], resolve: noNames }, clock });
});
afterEach(() => issuer[Symbol.asyncDispose]());

const verified = async (from = source) => {
  const text = await issuer.sign({ claims: {} });
  return jwtVerify(text, keys.keyOf(from), { algorithms: ['ES256'] }).then(
    () => 'verified',
    (error: unknown) => (error instanceof Error ? error.name : ''),
  );
};

test('keys of an issuer: they are read once, whoever waits', async () => {
  const all = await Promise.all(Array.from({ length: 10 }, () => verified()));

  expect(new Set(all)).toEqual(new Set(['verified']));
  expect(issuer.reads()).toBe(1);
});

test('keys of an issuer: an unknown key is looked up at most once in thirty seconds', async () => {
  await verified();
  await issuer.rotate();

  expect(await verified()).toBe('JWKSNoMatchingKey');
  expect(issuer.reads()).toBe(1);
  await clock.advance(30);
  await Promise.all(Array.from({ length: 10 }, () => verified()));
  expect(issuer.reads()).toBe(2);
  await issuer.rotate();
  await Promise.all(Array.from({ length: 100 }, () => verified()));
  expect(issuer.reads()).toBe(2);
});

test('keys of an issuer: a removed key counts for ten minutes at most', async () => {
  await verified();
  const text = await issuer.sign({ claims: {} });
  await issuer.rotate();
  const isValid = () =>
    jwtVerify(text, keys.keyOf(source)).then(
      () => true,
      () => false,
    );

  expect(await isValid()).toBe(true);
  await clock.advance(600);
  expect(await isValid()).toBe(false);
});

test('keys of an issuer: if they cannot be read again, those that were read count for an hour', async () => {
  await verified();
  issuer.fail(503);
  await clock.advance(3599);
  expect(await verified()).toBe('verified');
  await clock.advance(1);

  expect(await verified()).toBe('OutboundError');
});

test('keys of an issuer: a failure is remembered for thirty seconds', async () => {
  issuer.fail(503);
  expect(await verified()).toBe('OutboundError');
  issuer.fail(undefined);

  expect(await verified()).toBe('OutboundError');
  await clock.advance(30);
  expect(await verified()).toBe('verified');
});

test('keys of an issuer: a configuration of another issuer is refused', async () => {
  expect(await verified({ type: 'issuer', issuer: `${issuer.issuer}/` })).toBe('OutboundError');
});

test('keys of an issuer: a private address is refused, unless the operator named it', async () => {
  keys = issuerKeys({ guard: { allowedHosts: [], resolve: noNames }, clock });

  expect(await verified()).toBe('OutboundError');
  expect(await verified({ type: 'url', url: issuer.keysUrl })).toBe('OutboundError');
  expect(issuer.reads()).toBe(0);
});

test('keys of an issuer: symmetric ones do not count', async () => {
  const secret = new TextEncoder().encode('a secret of thirty-two characters');
  const k = Buffer.from(secret).toString('base64url');
  const jwks = JSON.stringify({ keys: [{ kty: 'oct', k, alg: 'HS256', kid: 'one' }] });
  const text = await issuer.sign({ header: { alg: 'HS256', kid: 'one' } }, secret);

  await expect(jwtVerify(text, keys.keyOf({ type: 'inline', jwks }))).rejects.toMatchObject({
    name: 'JOSENotSupported',
  });
});
