import { expect, test } from 'vitest';
import { spellings } from '#support/spellings';

const secret = 'secret_0123456789abcdef??>>~~';
const finds = (text: string) => spellings(secret).some((found) => text.includes(String(found)));

test('secret search: finds a secret as it is and in hex', () => {
  expect(finds(`a ${secret} b`)).toBe(true);
  expect(finds(Buffer.from(`12${secret}`).toString('hex'))).toBe(true);
  expect(finds(Buffer.from(secret).toString('hex').toUpperCase())).toBe(true);
});

test('secret search: finds a secret in base64 of either alphabet, at any offset', () => {
  for (const before of ['', 'a', 'ab', 'abc', 'client:']) {
    const text = Buffer.from(`${before}${secret} and more`);

    expect(finds(text.toString('base64'))).toBe(true);
    expect(finds(text.toString('base64url'))).toBe(true);
  }
});

test('secret search: does not find a different secret', () => {
  const other = Buffer.from(secret.replace('0', '1'));

  expect(finds(`${other.toString()} ${other.toString('base64')} ${other.toString('hex')}`)).toBe(
    false,
  );
});
