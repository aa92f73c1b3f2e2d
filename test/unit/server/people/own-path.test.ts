import { expect, test } from 'vitest';

import { ownPath } from '#server/people/own-path';

const base = 'https://latchkey.example.com';

test.each(['/account', '/oauth/consent?client_id=a&state=%2F%2Fx', '/a#b'])(
  'a path of ours stays: %s',
  (path) => expect(ownPath(path, base)).toBe(path),
);

test.each([
  undefined,
  '//evil.example',
  'https://evil.example',
  '/\\evil.example',
  '\\\\evil.example',
  '/\t/evil.example',
  '/\n/evil.example',
  ' //evil.example',
  'javascript:alert(1)',
  'account',
  '/\u202e',
])('anything else leads to the start page: %j', (text) => {
  expect(ownPath(text, base)).toBe('/');
});
