import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { jwtVerify } from 'jose';
import { expect, test } from 'vitest';
import { clientAssertion } from '#proxy/auth/client-authentication';

const issuer = 'https://as.example.com/tenant';
const now = 1_800_000_000;

test.each<[string, string, { publicKey: KeyObject; privateKey: KeyObject }]>([
  ['Ed25519', 'EdDSA', generateKeyPairSync('ed25519')],
  ['P-256', 'ES256', generateKeyPairSync('ec', { namedCurve: 'P-256' })],
  ['RSA', 'RS256', generateKeyPairSync('rsa', { modulusLength: 2048 })],
])(
  'client assertion: a key of kind %s signs with %s, and only for the issuer',
  async (_, alg, { publicKey, privateKey }) => {
    const assertion = clientAssertion({ clientId: 'c', key: privateKey }, issuer, now);

    const { payload, protectedHeader } = await jwtVerify(assertion, publicKey, {
      issuer: 'c',
      subject: 'c',
      audience: issuer,
      currentDate: new Date(now * 1000),
    });
    expect(protectedHeader.alg).toBe(alg);
    expect(payload).toMatchObject({
      aud: issuer,
      iat: now,
      exp: now + 60,
      jti: expect.any(String),
    });
  },
);

test('client assertion: a key of an unsupported kind is refused', () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-384' });

  expect(() => clientAssertion({ clientId: 'c', key: privateKey }, issuer, now)).toThrow(
    expect.objectContaining({ code: 'client' }),
  );
});
