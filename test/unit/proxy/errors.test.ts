import { expect, test } from 'vitest';
import { LoopbackError, OAuthError, TokenError } from '#proxy/auth/errors';
import { listConnection } from '#proxy/auth/server-list';
import { setupCommand } from '#proxy/cli/setup';
import type { Connection } from '#proxy/config/connection';
import { inKeychain, type Secret } from '#proxy/config/secret';
import { explain, fileWords, words } from '#proxy/errors';
import { UpstreamError } from '#proxy/transport/upstream';

test.each([
  [404, 'that is not an MCP endpoint; check the URL of the connection'],
  [502, 'try again later'],
])('errors: the hint about an answer with status %i', (status, hint) => {
  const error = new UpstreamError('status', `answered ${status}`, { status });

  expect(words(error).hint).toBe(hint);
});

test('errors: a sign-in without a connection is repeated with the command that began it', () => {
  const again = setupCommand.signsInAgain?.({
    operands: ['https://mcp.acme.example'],
    flags: new Map(),
    options: {},
  });

  const { hint } = words(new LoopbackError('pasted', 'the input ended'), undefined, again);

  expect(hint).toBe('latchkey setup https://mcp.acme.example');
});

test('errors: an error of no known class is a bug, and is thrown as it came', () => {
  const bug = new Error('cannot read properties of undefined');

  expect(() => words(bug)).toThrow(bug);
});

test.each(['__proto__', 'constructor', 'toString'])(
  'errors: a server that refuses a sign-in with the error %s gets the usual hint',
  (error) => {
    const denied = new OAuthError('denied', 'the server refused', { endpoint: '', error });

    expect(words(denied)).toMatchObject({ hint: 'latchkey login NAME', data: { error } });
  },
);

test.each([
  ['declined', 'not signed in: the reason', 'latchkey setup https://latchkey.example.com'],
  [
    'no_access',
    'the reason',
    'ask an administrator for access, then run latchkey setup https://latchkey.example.com again',
  ],
] as const)(
  'errors: a list of servers that ends with %s is set up again',
  (code, message, hint) => {
    const error = new OAuthError(code, 'the reason', { endpoint: 'https://latchkey.example.com' });
    const list = listConnection('https://latchkey.example.com/api/my/servers');

    expect(words(error, list)).toMatchObject({ message, hint });
  },
);

test('errors: a refused API key of the keychain is replaced by latchkey rotate', () => {
  const apiKey = (apiKeySecret: Secret): Connection => ({
    name: 'sales',
    url: 'https://latchkey.example.com/mcp/acme/sales',
    source: '/home/dana/.config/latchkey/connections.json',
    credentials: { kind: 'api_key', apiKeySecret },
  });
  const error = new UpstreamError('unauthorized', 'rejected this API key');

  expect(words(error, apiKey(inKeychain)).hint).toBe(
    'it may be mistyped, expired or revoked; get a new key, then run latchkey rotate sales',
  );
  expect(words(error, apiKey('mcp_key')).hint).toContain('check the credential of sales (');
});

const system = (code: string, more: object) =>
  Object.assign(new Error(`${code}: refused`), { code, ...more });

test.each([
  ...['EACCES', 'EPERM', 'EROFS'].map((code): [Error, string] => [
    system(code, { syscall: 'open', path: '/f' }),
    'check the permissions of the file',
  ]),
  ...['ENOENT', 'ENOTDIR', 'EISDIR'].map((code): [Error, string] => [
    system(code, { syscall: 'open', path: '/f' }),
    'check the path',
  ]),
  [
    system('EFBIG', { syscall: 'write' }),
    'the file would be too large; check the limits of the disk and of your account',
  ],
  [system('ENOENT', { syscall: 'spawn npx', path: 'npx' }), 'check that the program is installed'],
  [system('ENOSPC', { syscall: 'open', path: '/f' }), 'free some disk space'],
  [system('ENOSPC', { syscall: 'write' }), 'free some disk space'],
  [system('ECONNRESET', { syscall: 'read' }), undefined],
  [new TypeError('undefined is not a function'), undefined],
])('errors: %s of a file has words, and a bug has none', (error, hint) => {
  expect(fileWords(error)).toEqual(hint && { message: error.message, hint });
});

const sales: Connection = {
  name: 'sales',
  url: 'https://latchkey.example.com/mcp/acme/sales',
  source: '/home/dana/.config/latchkey/connections.json',
  credentials: { kind: 'authorization_code' },
};

test.each(['npx --no latchkey', 'npx -y "https://latchkey.example.com/download/latchkey.tgz?v=1"'])(
  'errors: an assistant is told the sign-in as a person types it who starts %s',
  (program) => {
    const { failure } = explain(new TokenError('signed_out', 'it ended'), sales, program);

    expect(failure).toMatchObject({
      message: `sign-in needed: it ended; ${program} login sales`,
      data: { remedy: `${program} login sales` },
    });
  },
);

test('errors: a secret in how a person starts the program does not reach an assistant', () => {
  const program = 'npx -y "https://dana:a-token@latchkey.example.com/latchkey.tgz"';

  const { failure } = explain(new TokenError('signed_out', 'it ended'), sales, program);

  expect(JSON.stringify(failure)).not.toContain('a-token');
});
