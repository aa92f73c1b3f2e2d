import { describe, expect, test } from 'vitest';
import { checkBaseUrl, listeningUrl } from '#server/config/base-url';
import { UsageError } from '#server/config/usage-error';

describe('a base URL is used as entered', () => {
  test.each([
    'https://latchkey.example.com',
    'https://latchkey.example.com:8443',
    'https://192.0.2.1',
    'http://127.0.0.1:8787',
    'http://[::1]:8787',
    'http://localhost:8787',
    'http://localhost',
  ])('%s', (url) => {
    expect(checkBaseUrl(url)).toBe(url);
  });
});

describe('a base URL is wrong usage', () => {
  test.each([
    ['http://latchkey.example.com', 'uses http'],
    ['http://0.0.0.0:8787', 'uses http'],
    ['http://127.0.0.1.example.com', 'uses http'],
    ['ftp://latchkey.example.com', 'must use https'],
    ['latchkey.example.com', 'is not a URL'],
    ['', 'is not a URL'],
    ['https://latchkey.example.com/', 'must be exactly https://latchkey.example.com'],
    ['https://latchkey.example.com/sub', 'must be exactly https://latchkey.example.com'],
    ['https://latchkey.example.com?x', 'must be exactly https://latchkey.example.com'],
    ['https://latchkey.example.com#x', 'must be exactly https://latchkey.example.com'],
    ['https://user@latchkey.example.com', 'must be exactly https://latchkey.example.com'],
    ['https://latchkey.example.com:443', 'must be exactly https://latchkey.example.com'],
    ['https://Latchkey.example.com', 'must be exactly https://latchkey.example.com'],
    ['HTTPS://latchkey.example.com', 'must be exactly https://latchkey.example.com'],
    ['https://lätchkey.example.com', 'must be exactly https://xn--ltchkey-5wa.example.com'],
  ])('%j: it %s', (url, why) => {
    expect(() => checkBaseUrl(url)).toThrow(UsageError);
    expect(() => checkBaseUrl(url)).toThrow(`--base-url ${url} ${why}`);
  });
});

test('a server without another name is called by its address', () => {
  expect(listeningUrl('127.0.0.1', 8787)).toBe('http://127.0.0.1:8787');
  expect(listeningUrl('::1', 8787)).toBe('http://[::1]:8787');
});
