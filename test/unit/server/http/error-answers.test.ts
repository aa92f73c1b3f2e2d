import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { oauthErrorAnswer } from '#server/http/error-answers';
import { OAuthError } from '#server/oauth/oauth-error';

describe('a refusal is answered in the JSON of RFC 6749', () => {
  test.each([
    ['invalid_client', 401],
    ['invalid_request', 400],
    ['invalid_grant', 400],
    ['unauthorized_client', 400],
    ['unsupported_grant_type', 400],
    ['invalid_scope', 400],
    ['invalid_target', 400],
  ] as const)('%s: %i', (code, status) => {
    expect(oauthErrorAnswer(new OAuthError(code, 'why'))).toEqual({
      status,
      headers: {},
      body: { error: code, error_description: 'why' },
    });
  });
});

test('a client that tried HTTP Basic is challenged to use it again', () => {
  const refusal = new OAuthError('invalid_client', 'failed', { challenge: 'Basic' });

  expect(oauthErrorAnswer(refusal)).toMatchObject({
    status: 401,
    headers: { 'WWW-Authenticate': 'Basic realm="latchkey"' },
  });
});

describe('a refusal of the HTTP framework keeps its status and loses its message', () => {
  test.each([
    [400, 'the request could not be read'],
    [413, 'the body is too large'],
    [415, 'the body must be application/x-www-form-urlencoded'],
  ])('%i', (statusCode, words) => {
    const error = Object.assign(new Error('internals'), { statusCode });

    expect(oauthErrorAnswer(error)).toEqual({
      status: statusCode,
      headers: {},
      body: { error: 'invalid_request', error_description: words },
    });
  });
});

test('a database that fails is 503, and its message stays private', () => {
  let fault: unknown;
  try {
    new DatabaseSync(':memory:').exec('select * from secrets');
  } catch (error) {
    fault = error;
  }
  const answer = oauthErrorAnswer(fault);

  expect(answer).toMatchObject({ status: 503, body: { error: 'temporarily_unavailable' } });
  expect(JSON.stringify(answer)).not.toContain('secrets');
});

describe('any other error is 500, and reveals nothing', () => {
  test.each([
    ['an error', new Error('mcp_internals')],
    [
      'an error that calls itself 500',
      Object.assign(new Error('mcp_internals'), { statusCode: 500 }),
    ],
    [
      'an error that calls itself 200',
      Object.assign(new Error('mcp_internals'), { statusCode: 200 }),
    ],
    ['a string', 'mcp_internals'],
    ['nothing', undefined],
  ])('%s', (_, error) => {
    const answer = oauthErrorAnswer(error);

    expect(answer).toMatchObject({ status: 500, headers: {}, body: { error: 'server_error' } });
    expect(JSON.stringify(answer)).not.toContain('mcp_internals');
  });
});
