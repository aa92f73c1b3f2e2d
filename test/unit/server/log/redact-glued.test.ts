import { expect, test } from 'vitest';

import { redact } from '#server/log/redact';

const tail = '0123456789abcdefghijABCDEFGHIJ012345';

test.each([
  `xsecret_${tail}`,
  `_mcp_${tail}_`,
  `https://api.pk_live_${tail}.example`,
  `3rt_${tail}`,
  `unicode_${tail}`,
])('a secret that is glued to a word is blotted out: %s', (text) => {
  expect(redact(text)).toContain('_[redacted]');
  expect(redact(text)).not.toContain(tail.slice(0, 8));
});

test('a JWT that is glued to a word is blotted out', () => {
  expect(redact('token_eyJhbGciOiJFZERTQSJ9.eyJhIjoxfQ.c2lnbmF0dXJl')).toBe('token_[redacted]');
});

test('what follows an authentication scheme is blotted out behind a line feed in JSON', () => {
  expect(redact(JSON.stringify('a\nBearer abcdefgh1234'))).toBe('"a\\nBearer [redacted]"');
});

test('most of a secret, cut off, is blotted out, as its checksum adds nothing to guess', () => {
  expect(redact(`secret_${tail.slice(0, 16)}`)).toBe('secret_[redacted]');
});

test('words that look like the beginning of a secret stay', () => {
  const words = 'code_challenge, code_verifier, client_secret, mcp_servers, no secret_ at all';

  expect(redact(words)).toBe(words);
});
