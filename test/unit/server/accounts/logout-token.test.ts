import { createLocalJWKSet, exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose';
import { beforeAll, expect, test } from 'vitest';

import { type LogoutTokenChecks, readLogoutToken } from '#server/accounts/logout-token';

const now = 1_800_000_000;
const event = 'http://schemas.openid.net/event/backchannel-logout';
const claims = {
  iss: 'https://id.example',
  aud: 'latchkey',
  iat: now,
  exp: now + 120,
  jti: 'one',
  sub: 'dana there',
  events: { [event]: {} },
};
let own: Awaited<ReturnType<typeof generateKeyPair>>;
let other: Awaited<ReturnType<typeof generateKeyPair>>;
let checks: LogoutTokenChecks;
beforeAll(async () => {
  own = await generateKeyPair('RS256');
  other = await generateKeyPair('RS256');
  const jwk = { ...(await exportJWK(own.publicKey)), kid: 'one', alg: 'RS256', use: 'sig' };
  checks = {
    issuer: 'https://id.example',
    clientId: 'latchkey',
    algorithms: ['RS256', 'HS256', 'none'],
    keys: createLocalJWKSet({ keys: [jwk] }),
    now,
  };
});

const signed = (but: Record<string, unknown> = {}, typ = 'logout+jwt', key = own) =>
  new SignJWT({ ...claims, ...but })
    .setProtectedHeader({ alg: 'RS256', kid: 'one', ...(typ !== '' && { typ }) })
    .sign(key.privateKey);
const reading = async (token: string) => {
  const read = await readLogoutToken(token, checks);
  return read.outcome === 'valid' ? read.logout : read.why;
};

test('logout token: a valid one names a person, a session, or both', async () => {
  const logout = { tokenId: 'one', issuedAt: now, expiresAt: now + 240 };

  expect(await reading(await signed())).toEqual({ ...logout, subject: 'dana there' });
  expect(await reading(await signed({ sid: 's' }))).toEqual({
    ...logout,
    subject: 'dana there',
    providerSession: 's',
  });
  expect(await reading(await signed({ sid: 's', sub: undefined }))).toEqual({
    ...logout,
    providerSession: 's',
  });
  expect(await reading(await signed({ aud: ['somebody', 'latchkey'] }))).toMatchObject(logout);
});

test.each<[string, Record<string, unknown>, string]>([
  ['of another issuer', { iss: 'https://evil.example' }, '"iss"'],
  ['for another client', { aud: 'somebody-else' }, '"aud"'],
  ['without an audience', { aud: undefined }, '"aud"'],
  ['that has expired', { exp: now - 61 }, '"exp"'],
  ['without an expiry', { exp: undefined }, '"exp"'],
  ['without a time of issue', { iat: undefined }, '"iat"'],
  ['from the future', { iat: now + 61 }, '"iat"'],
  ['from the day before yesterday', { iat: now - 2 * 86_400, exp: now + 1 }, '"iat"'],
  ['without an id', { jti: undefined }, '"jti"'],
  ['with an empty id', { jti: '' }, '"jti"'],
  ['with a very long id', { jti: 'x'.repeat(501) }, '"jti"'],
  ['without events', { events: undefined }, '"events"'],
  ['of another event', { events: { 'https://id.example/event': {} } }, '"events"'],
  ['with an event that is no object', { events: { [event]: true } }, '"events"'],
  ['with a nonce', { nonce: 'n' }, '"nonce"'],
  ['with an empty nonce', { nonce: '' }, '"nonce"'],
  ['that names no one', { sub: undefined }, 'neither'],
  ['with an empty subject', { sub: '' }, '"sub"'],
  ['with a session that is no text', { sid: 7 }, '"sid"'],
])('170: a logout token %s counts for nothing', async (_, but, why) => {
  expect(await reading(await signed(but))).toContain(why);
});

test('170: a logout token with the type of an ID token, an unpublished key, no signature or the secret counts for nothing', async () => {
  const secret = new TextEncoder().encode('the secret of latchkey there'.padEnd(32));
  const byHmac = await new SignJWT(claims)
    .setProtectedHeader({ alg: 'HS256', typ: 'logout+jwt' })
    .sign(secret);
  const whys = [
    await reading(await signed({}, 'JWT')),
    await reading(await signed({}, '')),
    await reading(await signed({}, 'logout+jwt', other)),
    await reading(new UnsecuredJWT(claims).encode()),
    await reading(byHmac),
    await reading('not a token'),
  ];

  expect(whys).toEqual([
    expect.stringContaining('typ'),
    expect.stringContaining('typ'),
    expect.stringContaining('signature'),
    expect.any(String),
    expect.stringContaining('alg'),
    expect.any(String),
  ]);
});

test('logout token: one that is valid for a year is remembered for as long as it could be accepted', async () => {
  expect(await reading(await signed({ exp: now + 365 * 86_400 }))).toMatchObject({
    expiresAt: now + 86_400 + 120,
  });
});
