import { expect, test } from 'vitest';
import { connectCommand } from '#proxy/cli/connect';
import { readInput } from '#proxy/cli/parse-command-line';
import { readArguments, derivedPort, serverHash } from '#proxy/config/mcp-remote';

const url = 'https://cloud.example.com/mcp/acme/sales';
const files: Record<string, string> = {
  '/headers': '# mine\nX-Team: red\n\nAuthorization: Bearer filed\n',
  '/client.json': '{"client_id":"c","client_secret":"${SECRET}"}',
};

/** Reads the words behind `latchkey URL`. */
function read(...words: string[]) {
  const { operands, flags } = readInput([url, ...words], connectCommand);
  return readArguments(
    { url, port: operands[1], flags },
    { platform: 'linux', env: { TOKEN: 'abc', SECRET: 's3' }, readText: (path) => files[path] },
  );
}

test('mcp-remote arguments: headers are read from arguments and files, with environment variables', () => {
  const { headers, warnings, secretHeaders } = read(
    '--header',
    'Authorization:Bearer ${TOKEN}',
    '--header',
    'X-Nobody: ${NOBODY}',
  );

  expect(headers).toEqual({ Authorization: 'Bearer abc', 'X-Nobody': '${NOBODY}' });
  expect(warnings).toEqual(['the environment variable NOBODY is not set']);
  expect(secretHeaders).toEqual(['authorization']);
  expect(read('--header-file', '/headers').headers).toEqual({
    'X-Team': 'red',
    Authorization: 'Bearer filed',
  });
});

test('mcp-remote arguments: client, redirect URI and scopes are read', () => {
  const { oauth } = read(
    '9696',
    '--static-oauth-client-info',
    '@/client.json',
    '--static-oauth-client-metadata',
    '{"scope":"a b"}',
    '--host',
    '127.0.0.1',
    '--callback-path',
    '/back',
    '--resource',
    'https://tenant.example/',
    '--authorize-param',
    'prompt=consent',
  );

  expect(oauth).toEqual({
    clientId: 'c',
    clientSecret: 's3',
    grant: 'authorization_code',
    scopes: 'a b',
    redirectPort: 9696,
    redirectHost: '127.0.0.1',
    redirectPath: '/back',
    resource: 'https://tenant.example/',
    authorizeParams: { prompt: 'consent' },
  });
});

test('mcp-remote arguments: a client registered earlier redirects to the port that mcp-remote derives', () => {
  const { oauth } = read('--static-oauth-client-info', '{"client_id":"c"}');

  expect(oauth).toMatchObject({
    redirectPort: derivedPort(serverHash({ url })),
    redirectHost: 'localhost',
    redirectPath: '/oauth/callback',
  });
});

test('mcp-remote arguments: client credentials are read', () => {
  const info = ['--static-oauth-client-info', '{"client_id":"c","client_secret":"${SECRET}"}'];

  expect(read(...info, '--client-credentials')).toMatchObject({
    oauth: { grant: 'client_credentials', clientSecret: 's3' },
    warnings: [],
  });
});

test('mcp-remote arguments: tools, transport, log level and the absence of a resource are read', () => {
  expect(
    read('--ignore-tool', 'delete*', '--ignore-tool', 'x', '--transport', 'sse-only', '--debug'),
  ).toMatchObject({ denyTools: ['delete*', 'x'], transport: 'sse-only', logLevel: 'debug' });
  expect(read('--silent').logLevel).toBe('error');
  expect(read('--disable-resource-parameter').oauth).toEqual({ resource: '' });
});

test.each([
  [['--header', 'Authorization: Bearer s3cret']],
  [['--static-oauth-client-info', '{"client_id":"c","client_secret":"s3cret"}']],
])(
  'mcp-remote arguments: %j causes a warning that suggests import, without the secret',
  (words) => {
    const text = read(...words).warnings.join('\n');

    expect(text).toContain('latchkey import');
    expect(text).not.toContain('s3cret');
  },
);

test('mcp-remote arguments: one warning names all options that have no effect in Latchkey', () => {
  const { warnings } = read('--keep-alive', '--auth-timeout', '60', '--enable-proxy');

  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toMatch(/options without effect: --keep-alive \(.+\), --auth-timeout \(.+\)/);
});

test.each([
  [['--header', 'nonsense s3cret'], "is not 'NAME: VALUE'"],
  [['--header-file', '/none'], 'is not an existing file'],
  [['--static-oauth-client-info', '{s3cret'], 'is not a JSON object'],
  [['--authorize-param', 's3cret'], 'is not KEY=VALUE'],
])('mcp-remote arguments: %j is a usage error that does not repeat its value', (words, problem) => {
  expect(() => read(...words)).toThrow(problem);
  expect(() => read(...words)).not.toThrow('s3cret');
});

test('mcp-remote arguments: an argument after the URL that is not a port is refused as a second server', () => {
  expect(() => read('other')).toThrow('enter one server only');
});

test('mcp-remote arguments: the hash of a connection is that of mcp-remote', () => {
  // Taken from mcp-remote 0.15.1.
  expect(serverHash({ url: 'https://a.example/mcp' })).toBe('aa5b24b0ba3994ba0c496692c23aa9e7');
  expect(derivedPort('0010aaaa')).toBe(3351);
});
