import { expect, test } from 'vitest';
import { proxyRoute } from '#proxy/transport/company-proxy';

const env = { HTTPS_PROXY: 'http://secure.example:3128', HTTP_PROXY: 'plain.example:8080' };
const by = (url: string, more: Record<string, string> = {}, proxy?: string) =>
  proxyRoute(new URL(url), { env: { ...env, ...more }, ...(proxy !== undefined && { proxy }) })
    ?.origin;

test('HTTP proxy: https and http have their own variables, and lower case takes precedence', () => {
  expect(by('https://a.example/')).toBe('http://secure.example:3128');
  expect(by('http://a.example/')).toBe('http://plain.example:8080');
  expect(by('https://a.example/', { https_proxy: 'https://small.example:1' })).toBe(
    'https://small.example:1',
  );
});

test('HTTP proxy: ALL_PROXY applies where no other variable is set', () => {
  const all = { ALL_PROXY: 'http://all.example:1' };

  expect(by('https://a.example/', { HTTPS_PROXY: '', ...all })).toBe('http://all.example:1');
  expect(by('https://a.example/', all)).toBe('http://secure.example:3128');
});

test('HTTP proxy: loopback is reached directly unless a proxy was configured for it', () => {
  for (const host of ['localhost:1', '127.0.0.1:1', '[::1]:1']) {
    expect(by(`http://${host}/`)).toBeUndefined();
    expect(by(`http://${host}/`, {}, 'http://asked.example:1')).toBe('http://asked.example:1');
  }
});

test('HTTP proxy: none disables it', () => {
  expect(by('https://a.example/', {}, 'none')).toBeUndefined();
});

test.each([
  ['*', 'https://any.example/', true],
  ['a.example', 'https://a.example/', true],
  ['a.example', 'https://below.a.example/', true],
  ['a.example', 'https://nota.example/', false],
  ['A.Example', 'https://a.example./', true],
  ['.a.example', 'https://a.example/', false],
  ['.a.example', 'https://below.a.example/', true],
  ['*.a.example', 'https://below.a.example/', true],
  ['b.example, a.example', 'https://a.example/', true],
  ['b.example a.example', 'https://a.example/', true],
  ['a.example:8443', 'https://a.example:8443/', true],
  ['a.example:8443', 'https://a.example/', false],
  ['a.example:443', 'https://a.example/', true],
  ['10.1.2.3', 'https://10.1.2.3/', true],
  ['10.0.0.0/8', 'https://10.200.0.1/', true],
  ['10.0.0.0/8', 'https://11.0.0.1/', false],
  ['10.0.0.0/8', 'https://ten.example/', false],
  ['10.0.0.0/99', 'https://10.0.0.1/', false],
  ['fd00::/8', 'https://[fd12::1]/', true],
  ['[fd12::1]:443', 'https://[fd12::1]/', true],
  ['2.3', 'https://10.1.2.3/', false],
])('HTTP proxy: with NO_PROXY=%s, %s is direct: %s', (list, url, direct) => {
  expect(by(url, { NO_PROXY: list }) === undefined).toBe(direct);
});

test('HTTP proxy: a SOCKS proxy is refused with a remedy', () => {
  expect(() =>
    by('https://a.example/', { HTTPS_PROXY: 'socks5://user:hidden@s.example:1' }),
  ).toThrow(
    expect.objectContaining({
      message: 'HTTPS_PROXY names a proxy that speaks socks5',
      remedy: expect.stringContaining('HTTP CONNECT'),
    }),
  );
});
