import { describe, expect, test } from 'vitest';
import { printable, redact } from '#mcp/safe-text';
import { jsonLinesLog } from '#proxy/log/log';
import { jsonLog } from '#server/log/log';

const random = 'abcdefghijklmnopqrstuvwxyz0123456789';
const jwt = 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl';

const evil = 'a\u001b[2J\u0007\u007f\u009b\u061c\u200f\u202e\u2066\u2028\ufeff\u{e0041}\r\n\tb';
const shown = String.raw`a\u001b[2J\u0007\u007f\u009b\u061c\u200f\u202e\u2066\u2028\ufeff\udb40\udc41\u000d\u000a\u0009b`;
const acts = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

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
    ['a token of a directory', `token scim_${random}`, 'token scim_[redacted]'],
    ['twice in a line', `mcp_${random},mcp_${random}`, 'mcp_[redacted],mcp_[redacted]'],
    ['cut short by little', `mcp_${random.slice(0, 30)}`, 'mcp_[redacted]'],
    ['behind another word', `x_mcp_${random}`, 'x_mcp_[redacted]'],
    ['behind letters', `xsecret_${random}`, 'xsecret_[redacted]'],
    ['behind a digit', `3rt_${random}`, '3rt_[redacted]'],
    ['as a host name', `https://api.pk_live_${random}.a`, 'https://api.pk_live_[redacted].a'],
    ['between underscores', `_mcp_${random}_`, '_mcp_[redacted]_'],
    ['as the end of a word', `unicode_${random}`, 'unicode_[redacted]'],
    ['cut to sixteen letters', `secret_${random.slice(0, 16)}`, 'secret_[redacted]'],
    ['a JWT', `token ${jwt}.`, 'token [redacted].'],
    ['a JWT without signature', 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.', '[redacted]'],
    ['a JWT that is cut off within its claims', 'eyJhbGciOiJub25lIn0.eyJzdW…', '[redacted]…'],
    ['a JWT behind a word', `token_${jwt}`, 'token_[redacted]'],
    [
      'a bearer token behind a line feed in JSON',
      String.raw`"a\nBearer abcdefgh1234"`,
      String.raw`"a\nBearer [redacted]"`,
    ],
    ['a client secret of any form', 'client_secret=hunter22&a=b', 'client_secret=[redacted]&a=b'],
    ['the same in a member', '{"access_token":"a,b&c"}', '{"access_token":"[redacted]"}'],
    [
      'the same in JSON within JSON',
      JSON.stringify({ body: '{"refresh_token": "hunter22"}' }),
      JSON.stringify({ body: '{"refresh_token": "[redacted]"}' }),
    ],
    ['the same in words', "client_assertion: 'hunter22'", "client_assertion: '[redacted]'"],
    ['the same without quotes', 'client_secret: hunter22', 'client_secret: [redacted]'],
    ['an API key in a URL', '/mcp?api_key=hunter22', '/mcp?api_key=[redacted]'],
    [
      'a bearer token of any kind',
      'Authorization: Bearer 0123456789',
      'Authorization: Bearer [redacted]',
    ],
    ['Basic credentials in any case', 'basic dXNlcjpwYXNzd29yZA==', 'basic [redacted]'],
    ['an encrypted JWT', `t ${jwt}.aXY.dGFn!`, 't [redacted]!'],
    ['an AWS key ID', 'key AKIAIOSFODNN7EXAMPLE.', 'key AKIA[redacted].'],
    [
      'an AWS key by its name',
      'aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
      'aws_secret_access_key = [redacted]',
    ],
    ['a GitHub token', `ghp_${random}`, 'ghp_[redacted]'],
    ['a fine-grained GitHub token', `github_pat_${random}_${random}`, 'github_pat_[redacted]'],
    ['a Slack token', 'xoxb-123456789012-abcDEF', 'xoxb-[redacted]'],
    [
      'a Slack webhook',
      'https://hooks.slack.com/services/T000/B000/XXXXXXXX',
      'https://hooks.slack.com/services/[redacted]',
    ],
    ['a GitLab token', 'glpat-abcdefghij0123456789', 'glpat-[redacted]'],
    ['a Stripe key', `sk_live_${random}`, 'sk_live_[redacted]'],
    ['an npm token', `//r/:_authToken=npm_${random}`, '//r/:_authToken=npm_[redacted]'],
    ['a Google API key', `AIza${random.slice(0, 35)}`, 'AIza[redacted]'],
    ['a Google access token', `ya29.a0${random}`, 'ya29.[redacted]'],
    ['a key of a language model', `"sk-ant-api03-${random}"`, '"sk-[redacted]"'],
    ['the same behind a line feed in JSON', `a\\nsk-proj-${random}`, 'a\\nsk-[redacted]'],
    [
      'a password in a URL',
      'postgres://dana:hunter2@db:5432/orders',
      'postgres://dana:[redacted]@db:5432/orders',
    ],
    ['a password without a user', 'redis://:hunter2@cache', 'redis://:[redacted]@cache'],
    [
      'a password in a connection string',
      'Server=db;User Id=sa;Password=hunter2;Encrypt=yes',
      'Server=db;User Id=sa;Password=[redacted];Encrypt=yes',
    ],
  ])('%s', (_, text, redacted) => {
    expect(redact(text)).toBe(redacted);
  });
});

describe('a private key is masked', () => {
  const lines = ['MIIEvQIBADANBgkqhkiG9w0BAQEFAASC', 'BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj'];
  const begin = '-----BEGIN PRIVATE KEY-----';
  const end = '-----END PRIVATE KEY-----';

  test.each([
    ['with its lines', ['a', begin, ...lines, end, 'b'].join('\n'), 'a\n[redacted private key]\nb'],
    [
      'with escaped line feeds',
      JSON.stringify({ key: [begin, ...lines, end].join('\n'), next: 1 }),
      '{"key":"[redacted private key]","next":1}',
    ],
    ['cut off', JSON.stringify([[begin, ...lines].join('\n')]), '["[redacted private key]"]'],
    [
      'that contains the form of another secret',
      [begin, `a AKIA${'A'.repeat(16)} b`, end].join('\n'),
      '[redacted private key]',
    ],
    [
      'of OpenSSH, among others',
      `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines[0]}\n-----END OPENSSH PRIVATE KEY-----, then ${begin}${lines[0]}${end}.`,
      '[redacted private key], then [redacted private key].',
    ],
  ])('%s', (_, text, redacted) => {
    expect(redact(text)).toBe(redacted);
  });

  test('and a public key stays', () => {
    const text = `-----BEGIN PUBLIC KEY-----\n${lines.join('\n')}\n-----END PUBLIC KEY-----`;

    expect(redact(text)).toBe(text);
  });
});

test.each([
  'client_abcdefghijklmnopqrstuvwx called acme/sales with mcp_…wKZM, key_0123456789abcdef',
  'https://latchkey.example:8443/mcp/acme/sales?a=b@c, http://127.0.0.1:8080/x@y',
  'mailto:dana@example.com and git@github.com:acme/site.git at 10:30@noon',
  'risk-assessment-of-2026-and-more-words task-management-2026-configuration disk-0123456789abcdefghij',
  'npm_lifecycle_event npm_config_registry AKIAS ghost_writer ghp_short xoxo eyJ sk-learn-and-other-libraries',
  '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----',
  'set a password, then pwd= and password=""',
  'code_challenge, code_verifier, client_secret, mcp_servers, no secret_ at all',
  'assertion: signature is invalid; client_secret_post; "token_type":"Bearer"; the access_token: expired',
  '{"refresh_token":1700000000,"assertion":null,"access_token":{"a":1}} keyJson.parse keyJoin.ts',
])('ordinary text stays: %s', (text) => {
  expect(redact(text)).toBe(text);
});

test('a known secret of any form is redacted, unless it is too short to be one', () => {
  expect(redact('the tool mcp_tools said hunter22, or a', ['hunter22', 'a'])).toBe(
    'the tool mcp_tools said [redacted], or a',
  );
});

test('what was redacted stays as it is', () => {
  const once = redact(`client_secret=secret_${random}&x="id_token":"${jwt}" pwd=hunter22`);

  expect(once).toBe('client_secret=secret_[redacted]&x="id_token":"[redacted]" pwd=[redacted]');
  expect(redact(once)).toBe(once);
});

// A pattern that searched the rest of the text again from each position would take minutes, and the test would time out.
test.each([
  '-----BEGIN PRIVATE KEY-----',
  '://',
  '://a:',
  'sk-',
  'eyJ',
  'eyJa.',
  'aws_secret_access_key',
  'assertion:',
  'id_token" : ',
])('a long text of nothing but %s is read once', (start) => {
  const text = `${start.repeat(300_000 / start.length)} mcp_${random}`;

  expect(redact(text)).toMatch(/redacted.*\]$/);
  expect(redact(text)).not.toContain(random.slice(0, 8));
});

/** Writes an event with these members to either log. */
const logs: [string, (fields: Readonly<Record<string, string>>) => string][] = [
  [
    'the proxy',
    (fields) => {
      let text = '';
      jsonLinesLog('info', (line) => (text += line)).info('said', fields);
      return text;
    },
  ],
  [
    'the server',
    (fields) => {
      let text = '';
      jsonLog('info', { write: (line) => (text += line) }).info(fields, 'said');
      return text;
    },
  ],
];

describe.each(logs)('a line of the log of %s', (_, lineOf) => {
  test.each([
    ['alone', `mcp_${random}`],
    ['behind a line feed', `first\nmcp_${random}`],
    ['behind a tab', `first\trt_${random}`],
    ['a JWT behind a line feed', `first\n${jwt}`],
    ['a bearer token behind a line feed', `first\nBearer ${random}`],
    ['of another service', `ghp_${random}`],
    ['by its name', `{"client_secret":"${random}"}`],
  ])('shows no secret: %s', (_case, text) => {
    const line = lineOf({ text });

    expect(line).toContain('[redacted]');
    expect(line).not.toMatch(new RegExp(`${random}|${jwt.slice(3)}`));
    expect(JSON.parse(line)).toMatchObject({ text: expect.stringContaining('redacted') });
  });

  test('is one line that changes nothing on a terminal, and contains the message', () => {
    const line = lineOf({ text: evil });

    expect(line.slice(0, -1)).not.toMatch(acts);
    expect(line.endsWith('\n')).toBe(true);
    expect(JSON.parse(line)).toMatchObject({ text: evil });
  });
});

test('what would act on a terminal is spelled out as in JSON, and nothing else', () => {
  const kept = 'Zoë “日本語” 👍 C:\\Users ~';

  expect(printable(evil)).toBe(shown);
  expect(printable(kept)).toBe(kept);
  expect(JSON.parse(printable(JSON.stringify({ evil, kept })))).toEqual({ evil, kept });
});
