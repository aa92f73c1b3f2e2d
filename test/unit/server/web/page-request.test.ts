import { expect, test } from 'vitest';
import { queryChoice, readCookie, setCookie } from '#server/web/page-request';

const token = 'a'.repeat(32);

test.each(['https://latchkey.example.com', 'http://127.0.0.1:8787'])(
  'under %s the cookie is bound to the host, secure and out of reach of scripts',
  (base) => {
    expect(setCookie('latchkey', token, { base, maxAgeSeconds: 60 })).toBe(
      `__Host-latchkey=${token}; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=60`,
    );
  },
);

test.each(['http://localhost:8787', 'http://[::1]:8787'])(
  'under %s, where browsers drop such a cookie, it is a plain one',
  (base) => {
    expect(setCookie('latchkey', token, { base, maxAgeSeconds: 60 })).toMatch(/^latchkey=a{32}; /);
  },
);

test.each([
  ['alone', `__Host-latchkey=${token}`, token],
  ['among others', `a=b; __Host-latchkey=${token}; c=d`, token],
  ['twice', `__Host-latchkey=${token}; __Host-latchkey=${'b'.repeat(32)}`, undefined],
  ['under its plain name', `latchkey=${token}`, undefined],
  ['of another shape', `__Host-latchkey=${token}"`, undefined],
  ['absent', undefined, undefined],
])('a cookie %s', (_, header, value) => {
  expect(readCookie(header, 'latchkey', 'https://latchkey.example.com')).toBe(value);
});

test.each([
  ['one of them', 'saved', 'Saved.'],
  ['another word', 'removed', undefined],
  ['a method of every object', 'constructor', undefined],
  ['the prototype', '__proto__', undefined],
  ['a list', ['saved', 'saved'], undefined],
  ['nothing', undefined, undefined],
])('a query parameter with fixed values: %s', (_, done, chosen) => {
  expect(queryChoice({ query: { done } }, 'done', { saved: 'Saved.' })).toBe(chosen);
});
