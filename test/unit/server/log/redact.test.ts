import { describe, expect, test } from 'vitest';
import { jsonLog } from '#server/log/log';
import { redact } from '#server/log/redact';

const random = 'abcdefghijklmnopqrstuvwxyz0123456789';
const jwt = 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl';

describe('a secret is masked wherever it is', () => {
  test.each([
    ['alone', `secret_${random}`, 'secret_[redacted]'],
    ['an agent key in words', `key pk_live_${random}!`, 'key pk_live_[redacted]!'],
    ['an MCP key in JSON', `{"key":"mcp_${random}"}`, '{"key":"mcp_[redacted]"}'],
    ['a webhook secret', `of whsec_${random}+/${random}=.`, 'of whsec_[redacted].'],
    ['a webhook secret in a URL', `/whsec_a%2Bb%2F${random}%3D/x`, '/whsec_[redacted]/x'],
    ['a code in a URL', `/cb?code=code_${random}&state=x`, '/cb?code=code_[redacted]&state=x'],
    ['a refresh token in a form', `refresh_token=rt_${random}`, 'refresh_token=rt_[redacted]'],
    ['a personal access token', `token pat_${random}`, 'token pat_[redacted]'],
    ['twice in a line', `mcp_${random},mcp_${random}`, 'mcp_[redacted],mcp_[redacted]'],
    ['cut short by little', `mcp_${random.slice(0, 30)}`, 'mcp_[redacted]'],
    ['behind another word', `x_mcp_${random}`, 'x_mcp_[redacted]'],
    ['a JWT', `token ${jwt}.`, 'token [redacted].'],
    ['a JWT without signature', 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.', '[redacted]'],
    [
      'a bearer token of any kind',
      'Authorization: Bearer 0123456789',
      'Authorization: Bearer [redacted]',
    ],
    ['Basic credentials in any case', 'basic dXNlcjpwYXNzd29yZA==', 'basic [redacted]'],
  ])('%s', (_, text, redacted) => {
    expect(redact(text)).toBe(redacted);
  });
});

test('ordinary text stays', () => {
  const text =
    'client_abcdefghijklmnopqrstuvwx called acme/sales with mcp_…wKZM, key_0123456789abcdef';

  expect(redact(text)).toBe(text);
});

describe('a line of the log shows no secret', () => {
  const logged = (log: (line: ReturnType<typeof jsonLog>) => void) => {
    const lines: string[] = [];
    log(jsonLog('info', { write: (line) => lines.push(line) }));
    return lines.join('');
  };

  test.each([
    ['in a member', { header: `mcp_${random}` }],
    ['deep inside', { a: { b: [{ c: `secret_${random}` }] } }],
    ['in the message of an error', { err: new Error(`no such key mcp_${random}`) }],
    ['in the cause of an error', { err: new Error('x', { cause: new Error(`rt_${random}`) }) }],
    ['behind a line feed', { text: `first\nmcp_${random}` }],
    ['behind a tab', { text: `first\trt_${random}` }],
    ['a JWT behind a line feed', { text: `first\n${jwt}` }],
    ['a bearer token behind a line feed', { text: `first\nBearer ${random}` }],
  ])('%s', (_, member) => {
    const line = logged((log) => log.info(member, 'said'));

    expect(line).toContain('[redacted]');
    expect(line).not.toMatch(new RegExp(`${random}|${jwt.slice(3)}`));
    expect(JSON.parse(line)).toMatchObject({ msg: 'said', level: 30 });
  });

  test('in the message itself', () => {
    expect(logged((log) => log.info(`got mcp_${random}`))).toContain('got mcp_[redacted]');
  });
});
