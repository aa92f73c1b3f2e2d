import { describe, expect, test } from 'vitest';
import { presentedCredential } from '#server/gateway/presented-credential';

const key = 'mcp_00000000000000000000000000000039wKZM';

describe('a request presents', () => {
  test.each([
    ['a key in X-API-Key', ['X-API-Key', key], { type: 'key', key }],
    ['a key in a header of any case', ['x-api-KEY', key], { type: 'key', key }],
    ['a key as a bearer', ['Authorization', `Bearer ${key}`], { type: 'key', key }],
    ['a token', ['Authorization', 'Bearer e.y.J'], { type: 'token', token: 'e.y.J' }],
    ['a token after more blanks', ['authorization', 'bearer   t'], { type: 'token', token: 't' }],
    [
      'a token among other headers',
      ['Cookie', 'a', 'Authorization', 'Bearer t'],
      { type: 'token', token: 't' },
    ],
    ['an empty key, for the store to refuse', ['X-API-Key', ''], { type: 'key', key: '' }],
  ])('%s', (_, rawHeaders, credential) => {
    expect(presentedCredential(rawHeaders)).toEqual(credential);
  });
});

describe('a request is refused as', () => {
  test.each([
    ['no_credential', 'nothing', []],
    ['no_credential', 'a cookie alone', ['Cookie', `session=${key}`]],
    ['no_credential', 'a header whose value is called X-API-Key', ['Cookie', 'X-API-Key']],
    ['two_credentials', 'a key and a token', ['X-API-Key', key, 'Authorization', 'Bearer t']],
    ['two_credentials', 'the same key twice', ['X-API-Key', key, 'x-api-key', key]],
    ['two_credentials', 'two tokens', ['Authorization', 'Bearer a', 'Authorization', 'Bearer b']],
    ['two_credentials', 'a key and an empty header', ['X-API-Key', key, 'Authorization', '']],
    ['bad_credential', 'HTTP Basic', ['Authorization', 'Basic dXNlcjpwYXNz']],
    ['bad_credential', 'a bearer without a token', ['Authorization', 'Bearer ']],
    ['bad_credential', 'a bearer with two words', ['Authorization', 'Bearer a b']],
    ['bad_credential', 'a token without its scheme', ['Authorization', 'e.y.J']],
    ['bad_credential', 'an empty header', ['Authorization', '']],
  ])('%s for %s', (code, _, rawHeaders) => {
    expect(() => presentedCredential(rawHeaders)).toThrow(expect.objectContaining({ code }));
  });
});
