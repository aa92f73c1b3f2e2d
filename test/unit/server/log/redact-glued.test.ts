import { expect, test } from 'vitest';

import { redact } from '#server/log/redact';

const tail = '0123456789abcdefghijABCDEFGHIJ012345';

test.each([
  `xsecret_${tail}`,
  `_mcp_${tail}_`,
  `https://api.pk_live_${tail}.example`,
  `3rt_${tail}`,
  `unicode_${tail}`,
])('a secret without a space before it is masked: %s', (text) => {
  expect(redact(text)).toContain('_[redacted]');
  expect(redact(text)).not.toContain(tail.slice(0, 8));
});

test('a JWT without a space before it is masked', () => {
  expect(redact('token_eyJhbGciOiJFZERTQSJ9.eyJhIjoxfQ.c2lnbmF0dXJl')).toBe('token_[redacted]');
});

test('the text after an authentication scheme and a line feed in JSON is masked', () => {
  expect(redact(JSON.stringify('a\nBearer abcdefgh1234'))).toBe('"a\\nBearer [redacted]"');
});

test('a truncated secret is masked, as its checksum adds nothing to guess', () => {
  expect(redact(`secret_${tail.slice(0, 16)}`)).toBe('secret_[redacted]');
});

test('words that begin like a secret stay', () => {
  const words = 'code_challenge, code_verifier, client_secret, mcp_servers, no secret_ at all';

  expect(redact(words)).toBe(words);
});
