import { decodeJwt, decodeProtectedHeader, SignJWT, UnsecuredJWT } from 'jose';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';

import {
  accessTokens,
  type AccessTokenClaims,
  type AccessTokens,
} from '#server/oauth/access-tokens';
import type { SigningKeys } from '#server/oauth/signing-keys';
import { freshSigningKeys } from '#support/fresh-signing-keys';
import { stillClock, type StillClock } from '#support/still-clock';

const issuer = 'https://latchkey.example.com';
let keys: SigningKeys;
let clock: StillClock;
let tokens: AccessTokens;

beforeAll(async () => {
  keys = await freshSigningKeys(stillClock());
});

beforeEach(() => {
  clock = stillClock();
  tokens = accessTokens(issuer, { keys, clock });
});

const claims = (): AccessTokenClaims => ({
  id: 'jti-1',
  subject: 'client_a',
  clientId: 'client_a',
  audience: `${issuer}/mcp/acme/sales`,
  scopes: ['mcp:tools:read', 'mcp:tools:execute'],
  issuedAt: clock.now(),
  expiresAt: clock.now() + 3600,
});

test('an access token has the header and the claims of RFC 9068', async () => {
  const token = tokens.issue(claims());

  expect(decodeProtectedHeader(token)).toEqual({
    typ: 'at+jwt',
    alg: 'EdDSA',
    kid: keys.current.kid,
  });
  expect(decodeJwt(token)).toEqual({
    iss: issuer,
    sub: 'client_a',
    aud: `${issuer}/mcp/acme/sales`,
    client_id: 'client_a',
    scope: 'mcp:tools:read mcp:tools:execute',
    iat: clock.now(),
    exp: clock.now() + 3600,
    jti: 'jti-1',
  });
});

test('a token that we issued is valid, the first time and from memory', async () => {
  const token = tokens.issue(claims());
  const valid = { outcome: 'valid', claims: claims() };

  expect(await tokens.verify(token)).toEqual(valid);
  expect(await tokens.verify(token)).toEqual(valid);
});

test('a token expires on the second, whether it was seen before or not', async () => {
  const token = tokens.issue(claims());
  clock.advance(3599);

  expect(await tokens.verify(token)).toMatchObject({ outcome: 'valid' });

  clock.advance(1);

  expect(await tokens.verify(token)).toMatchObject({ outcome: 'invalid' });
  expect(await tokens.verify(token)).toMatchObject({ outcome: 'invalid' });
  expect(await accessTokens(issuer, { keys, clock }).verify(token)).toMatchObject({
    outcome: 'invalid',
  });
});

test('a token is invalid without the key that signed it, whether it was seen before or not', async () => {
  const publicKeys = new Map(keys.publicKeys);
  const rotated = accessTokens(issuer, { keys: { ...keys, publicKeys }, clock });
  const token = rotated.issue(claims());
  expect(await rotated.verify(token)).toMatchObject({ outcome: 'valid' });

  publicKeys.clear();

  expect(await rotated.verify(token)).toEqual({ outcome: 'invalid', reason: 'unknown kid' });
  expect(await rotated.verify(tokens.issue(claims()))).toMatchObject({ outcome: 'invalid' });
});

test('a token that was seen before is verified without waiting', async () => {
  const token = tokens.issue(claims());
  const valid = { outcome: 'valid', claims: claims() };
  await tokens.verify(token);

  expect(tokens.verify(token)).toEqual(valid);
});

/** A valid token except for the members of `payload` and `header`; `undefined` omits a member. */
function forged(payload: object, header: Record<string, unknown> = {}): Promise<string> {
  const right = {
    iss: issuer,
    sub: 'client_a',
    aud: `${issuer}/mcp/acme/sales`,
    client_id: 'client_a',
    scope: 'mcp:tools:read',
    iat: clock.now(),
    exp: clock.now() + 3600,
    jti: 'jti-1',
  };
  return new SignJWT({ ...right, ...payload })
    .setProtectedHeader({ typ: 'at+jwt', alg: 'EdDSA', kid: keys.current.kid, ...header })
    .sign(keys.current.privateKey);
}

test('the forger of these tests makes a valid token unless told otherwise', async () => {
  expect(await tokens.verify(await forged({}))).toMatchObject({ outcome: 'valid' });
});

test('a scope that this program does not know grants nothing', async () => {
  const token = await forged({ scope: 'mcp:tools:read mcp:everything' });

  expect(await tokens.verify(token)).toMatchObject({ claims: { scopes: ['mcp:tools:read'] } });
});

describe('a token signed by us is invalid when', () => {
  test.each([
    ['another issuer made it', { iss: 'https://evil.example.com' }, {}],
    ['it names no issuer', { iss: undefined }, {}],
    ['it has two audiences', { aud: ['https://a.example', 'https://b.example'] }, {}],
    ['its one audience is a list', { aud: [`${issuer}/mcp/acme/sales`] }, {}],
    ['it has no audience', { aud: undefined }, {}],
    ['it has no subject', { sub: undefined }, {}],
    ['it has no client_id', { client_id: undefined }, {}],
    ['it has no scope', { scope: undefined }, {}],
    ['its scope is a list', { scope: ['mcp:tools:read'] }, {}],
    ['it has no jti', { jti: undefined }, {}],
    ['it never expires', { exp: undefined }, {}],
    ['it is valid for more than an hour', { exp: stillClock().now() + 3601 }, {}],
    ['it was issued at no time', { iat: undefined }, {}],
    ['it is not yet valid', { nbf: 4_000_000_000 }, {}],
    ['it has more than 4096 characters', { pad: 'x'.repeat(4096) }, {}],
    ['it is a JWT of another type', {}, { typ: 'JWT' }],
    ['it has no type', {}, { typ: undefined }],
    ['it names no key', {}, { kid: undefined }],
    ['it names a key that is not ours', {}, { kid: 'unknown' }],
  ])('%s', async (_, payload, header) => {
    const token = await forged(payload, header);

    expect(await tokens.verify(token)).toMatchObject({ outcome: 'invalid' });
  });
});

describe('a text is no valid token when it', () => {
  const b64 = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const cut = (token: string) => {
    const [header = '', payload = '', signature = ''] = token.split('.');
    return [header, payload, signature] as const;
  };
  const cases: [string, (token: string) => string | Promise<string>][] = [
    ['is empty', () => ''],
    ['is one word', () => 'token'],
    ['is two dots', () => '..'],
    ['lacks its signature', (token) => cut(token).slice(0, 2).join('.')],
    ['has an empty signature', (token) => `${cut(token).slice(0, 2).join('.')}.`],
    ['has a fourth part', (token) => `${token}.${cut(token)[2]}`],
    ['is padded', (token) => `${token}=`],
    ['begins with a blank', (token) => ` ${token}`],
    ['ends in a line feed', (token) => `${token}\n`],
    ['is too long to look at', (token) => `${cut(token)[0]}.${'A'.repeat(5000)}.${cut(token)[2]}`],
    [
      'has another payload under the same signature',
      (token) =>
        `${cut(token)[0]}.${b64({ ...decodeJwt(token), sub: 'client_b' })}.${cut(token)[2]}`,
    ],
    [
      'has another header under the same signature',
      (token) =>
        `${b64({ ...decodeProtectedHeader(token), x: 1 })}.${cut(token).slice(1).join('.')}`,
    ],
    [
      'is not signed (alg none)',
      () => new UnsecuredJWT({ ...claims() }).setIssuer(issuer).encode(),
    ],
    [
      'is signed by HMAC under the public key',
      () =>
        new SignJWT({ scope: '' })
          .setProtectedHeader({ typ: 'at+jwt', alg: 'HS256', kid: keys.current.kid })
          .sign(Buffer.from(JSON.stringify(keys.jwks.keys[0]))),
    ],
    [
      'is signed by a stranger under our kid',
      async () => {
        const stranger = await freshSigningKeys(clock);
        const current = { ...stranger.current, kid: keys.current.kid };
        return accessTokens(issuer, { keys: { ...stranger, current }, clock }).issue(claims());
      },
    ],
  ];
  test.each(cases)('%s', async (_, broken) => {
    const token = await broken(tokens.issue(claims()));

    expect(await tokens.verify(token)).toMatchObject({ outcome: 'invalid' });
  });
});

test('of the sixteen spellings of a signature one is accepted, so a revoked token has no twin', async () => {
  const token = tokens.issue(claims());
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const spellings = Array.from(alphabet, (last) => token.slice(0, -1) + last);
  const verdicts = await Promise.all(spellings.map(async (spelling) => tokens.verify(spelling)));

  expect(spellings.filter((_, at) => verdicts[at]?.outcome === 'valid')).toEqual([token]);
});
