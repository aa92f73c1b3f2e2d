import { randomBytes } from 'node:crypto';

import { Secret, TOTP } from 'otpauth';
import { decodeQR } from 'qr/decode.js';
import { encodeQR } from 'qr';
import { expect, test } from 'vitest';

import {
  mintRecoveryCodes,
  recoveryHash,
  sealNewTotp,
  totpEnrolment,
  totpStep,
} from '#server/accounts/authenticator-app';
import { masterKey } from '#server/secrets/master-key';

const sealing = masterKey(randomBytes(32));
const now = 1_800_000_015;
const enrolled = (userId = 'user_dana') => ({
  userId,
  sealedSecret: sealNewTotp(userId, sealing),
});
const person = { email: 'dana@example.com', issuer: 'Latchkey acme.example' };

// RFC 6238, appendix B; its codes have eight digits, of which an app of six shows the last.
test.each([
  [59, '287082'],
  [1_111_111_109, '081804'],
  [1_234_567_890, '005924'],
  [20_000_000_000, '353130'],
])('the code at %i seconds is that of RFC 6238', (at, code) => {
  const secret = Secret.fromLatin1('12345678901234567890').base32;
  const totp = { userId: 'user_dana', sealedSecret: sealing.seal('totp user_dana', secret) };

  expect(totpStep(code, totp, { sealing, now: at })).toBe(Math.floor(at / 30));
});

test('a code is valid one step early or late, as clocks differ, and no further', () => {
  const totp = enrolled();
  const { secret } = totpEnrolment(totp, person, sealing);
  const codeAt = (at: number) =>
    TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: at * 1000 });

  const steps = [-60, -30, 0, 30, 60].map((late) =>
    totpStep(codeAt(now + late), totp, { sealing, now }),
  );

  const step = now / 30 - 0.5;
  expect(steps).toEqual([undefined, step - 1, step, step + 1, undefined]);
  expect(
    totpStep(` ${codeAt(now).slice(0, 3)} ${codeAt(now).slice(3)} `, totp, { sealing, now }),
  ).toBe(step);
});

test.each(['', '12345', '1234567', 'abcdef', '１２３４５６'])('%j is no code', (text) => {
  expect(totpStep(text, enrolled(), { sealing, now })).toBeUndefined();
});

test('the secret is sealed for one person', () => {
  const { sealedSecret } = enrolled();

  const other = () => totpEnrolment({ userId: 'user_eve', sealedSecret }, person, sealing);

  expect(other).toThrow('authenticate');
});

test('the image contains what an app needs, and names the issuer', () => {
  const { uri, secret } = totpEnrolment(enrolled(), person, sealing);
  const pixels = encodeQR(uri, 'raw', { scale: 4, border: 4 });
  const size = pixels.length;
  const data = new Uint8Array(pixels.flatMap((row) => row.flatMap((dark) => grey(dark ? 0 : 255))));

  const read = decodeQR({ width: size, height: size, data });

  expect(read).toBe(uri);
  const url = new URL(uri);
  expect(url.searchParams.get('secret')).toBe(secret);
  expect(decodeURIComponent(url.pathname)).toContain('Latchkey acme.example:dana@example.com');
});

test('a recovery code is accepted in any spelling, for its owner alone', () => {
  const [code = ''] = mintRecoveryCodes();
  const hash = recoveryHash('user_dana', code);

  expect(mintRecoveryCodes()).toHaveLength(10);
  expect(code).toMatch(/^[0-9a-hjkmnp-tv-z]{4}(-[0-9a-hjkmnp-tv-z]{4}){3}$/);
  expect(recoveryHash('user_dana', ` ${code.toUpperCase().replaceAll('-', ' ')}`)).toBe(hash);
  expect(recoveryHash('user_dana', code.replaceAll('0', 'O').replaceAll('1', 'l'))).toBe(hash);
  expect(recoveryHash('user_eve', code)).not.toBe(hash);
  expect(recoveryHash('user_dana', code.slice(1))).toBeUndefined();
});

function grey(value: number): number[] {
  return [value, value, value, 255];
}
