import { decodeJwt, decodeProtectedHeader } from 'jose';
import { beforeAll, beforeEach, expect, test } from 'vitest';

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
