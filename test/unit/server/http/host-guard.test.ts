import { describe, expect, test } from 'vitest';
import { expectedHost, isAllowedOrigin, isOwnHost } from '#server/http/host-guard';

const base = 'https://latchkey.example.com:8443';

test('the expected host is that of the public URL, without a port that is the scheme’s own', () => {
  expect(expectedHost(base)).toBe('latchkey.example.com:8443');
  expect(expectedHost('https://latchkey.example.com')).toBe('latchkey.example.com');
  expect(expectedHost('http://[::1]:8787')).toBe('[::1]:8787');
});

describe('a Host header', () => {
  test.each([
    [true, 'latchkey.example.com:8443'],
    [true, 'LATCHKEY.example.com:8443'],
    [false, 'latchkey.example.com'],
    [false, 'latchkey.example.com:8444'],
    [false, 'evil.example.com:8443'],
    [false, 'latchkey.example.com:8443.evil.example'],
    [false, 'latchkey.example.com.:8443'],
    [false, 'localhost:8443'],
    [false, ''],
    [false, undefined],
  ])('is ours (%s): %j', (own, host) => {
    expect(isOwnHost(host, base)).toBe(own);
  });
});

describe('an origin', () => {
  const allowed = ['https://inspector.example.com'];
  test.each([
    [true, undefined],
    [true, base],
    [true, 'https://inspector.example.com'],
    [false, 'https://evil.example.com'],
    [false, 'http://inspector.example.com'],
    [false, 'https://inspector.example.com:444'],
    [false, 'https://inspector.example.com.evil.example'],
    [false, 'null'],
    [false, ''],
  ])('may call (%s): %j', (may, origin) => {
    expect(isAllowedOrigin(origin, base, allowed)).toBe(may);
  });
});
