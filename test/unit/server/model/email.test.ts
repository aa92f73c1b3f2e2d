import { expect, test } from 'vitest';

import { emailKey, isEmail } from '#server/model/email';

test.each(['dana@example.com', 'd@x', "o'neil+tag@example.com", 'δάνα@παράδειγμα.gr'])(
  '%s could be an address',
  (text) => {
    expect(isEmail(text)).toBe(true);
  },
);

test.each([
  ['no name', '@example.com'],
  ['no host', 'dana@'],
  ['two hosts', 'dana@example.com@example.com'],
  ['a space', 'da na@example.com'],
  ['a tag', 'dana@<b>example.com'],
  ['a line break', 'dana@example.com\n'],
  ['a control character in the host', 'dana@example\u0001.com'],
  ['a control character beyond ASCII', 'dana\u0085@example.com'],
  ['a character of no width', 'dana\u200b@example.com'],
  ['a turn of the direction', 'dana\u202e@example.com'],
  ['half a character', 'dana\ud800@example.com'],
  ['too many characters', `${'d'.repeat(250)}@x.yz`],
])('%s is not an address', (_what, text) => {
  expect(isEmail(text)).toBe(false);
});

test('addresses are equal whatever their case and width', () => {
  expect(emailKey(' Ｄana@Example.com')).toBe('dana@example.com');
});
