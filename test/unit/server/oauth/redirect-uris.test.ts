import { describe, expect, test } from 'vitest';

import { checkRedirectUri } from '#server/oauth/redirect-uris';

describe('a redirect URI may be registered', () => {
  test.each([
    'https://app.example.com/callback',
    'https://app.example.com/callback?tenant=1',
    'http://127.0.0.1/callback',
    'http://127.0.0.1:49152/callback',
    'http://[::1]:8080/callback',
    'http://localhost:3000/',
    'cursor://anysphere.cursor-retrieval/oauth/callback',
    'com.example.app:/callback',
    'https://xn--exmple-cua.com:8443/cb',
    'https://EXAMPLE.com/cb',
    'https://10.0.0.1/cb',
    'https://[2001:db8::1]/cb',
    'https://app.example.com/a,b;c?d=e,f',
  ])('%s', (uri) => {
    expect(checkRedirectUri(uri)).toBeUndefined();
  });
});

describe('a redirect URI is refused', () => {
  test.each([
    ['javascript:alert(1)', 'must not use javascript:'],
    ['JavaScript:alert(1)', 'must not use javascript:'],
    ['data:text/html,x', 'must not use data:'],
    ['file:///etc/passwd', 'must not use file:'],
    ['vbscript:x', 'must not use vbscript:'],
    ['blob:https://example.com/x', 'must not use blob:'],
    ['about:blank', 'must not use about:'],
    ['java\tscript:alert(1)', 'contains spaces'],
    [' https://example.com/', 'contains spaces'],
    ['https://exämple.com/', 'contains spaces or non-ASCII characters'],
    ['https://example.com/\u0000', 'contains spaces'],
    ['', 'contains spaces'],
    ['/callback', 'is not an absolute URI'],
    ['//example.com/callback', 'is not an absolute URI'],
    ['https://example.com/#done', 'fragment'],
    ['https://example.com/#', 'fragment'],
    ['https://user@example.com/', 'a user or a password'],
    ['https://:word@example.com/', 'a user or a password'],
    ['http://example.com/', 'uses http'],
    ['http://127.0.0.1.example.com/', 'uses http'],
    ['http://localhost.example.com/', 'uses http'],
    ['http://127.0.0.2/', 'uses http'],
    ...['!', '$', '&', "'", '(', ')', '+', ',', ';', '=', '_', '~', '%2C', '%3B', '%27'].map(
      (character): [string, string] => [`https://e.test${character}evil/cb`, 'has an invalid host'],
    ),
    ['https://e.test./cb', 'has an invalid host'],
    ['https://e..test/cb', 'has an invalid host'],
  ])('%j: it %s', (uri, problem) => {
    expect(checkRedirectUri(uri)).toContain(problem);
  });
});
