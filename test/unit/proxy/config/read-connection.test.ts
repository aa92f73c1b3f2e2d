import { expect, test } from 'vitest';
import { ConfigurationError } from '#proxy/config/errors';
import { connectionEntry } from '#proxy/config/connection';
import { readConnection } from '#proxy/config/read-connection';
import { inKeychain } from '#proxy/config/secret';
import { userFiles } from '#proxy/config/user-files';

const url = 'https://cloud.example.com/mcp/acme/sales';
const clientSecret = `secret_${'s'.repeat(36)}`;
const oauth = { clientId: 'client_1', clientSecret, scopes: ['a', 'b'] };
const clientCredentials = { kind: 'client_credentials', clientId: 'client_1', clientSecret };

type ReadOptions = { target?: string; config?: string; env?: Record<string, string> };

/** Reads `acme` from files given as objects or texts, in the home directory /h of a Linux user. */
async function read(
  files: Record<string, unknown>,
  { target = 'acme', config = '', env = {} }: ReadOptions = {},
) {
  const texts = new Map(
    Object.entries(files).map(([path, content]) => [
      path,
      typeof content === 'string' ? content : JSON.stringify(content),
    ]),
  );
  return readConnection(
    target,
    config || undefined,
    { platform: 'linux', home: '/h', env },
    (path) => texts.get(path),
  );
}

const entry = (value: unknown) => ({ mcpServers: { acme: value } });
const inFile = async (value: unknown, env: Record<string, string> = {}) =>
  read({ '/c.json': entry(value) }, { config: '/c.json', env });

async function problemsOf(work: Promise<unknown>) {
  const error = await work.catch((refusal: unknown) => refusal);
  expect(error).toBeInstanceOf(ConfigurationError);
  return error instanceof ConfigurationError ? error : new ConfigurationError([]);
}

test('connection: an entry in the documented format is read as a client with its secret and scopes', async () => {
  expect(await inFile({ url, oauth })).toEqual({
    name: 'acme',
    url,
    source: '/c.json',
    configFile: '/c.json',
    credentials: { ...clientCredentials, scopes: ['a', 'b'] },
  });
});

test.each([
  ['scopes in a string', { url, oauth: { ...oauth, scopes: 'a b' } }],
  ['scope', { url, oauth: { ...oauth, scopes: undefined, scope: 'a b' } }],
  ['Gemini’s httpUrl', { httpUrl: url, oauth: { ...oauth, enabled: true } }],
  [
    'Cursor’s auth',
    { url, auth: { CLIENT_ID: 'client_1', CLIENT_SECRET: clientSecret, scopes: ['a', 'b'] } },
  ],
  [
    'latchkey itself',
    {
      command: 'npx',
      args: ['-y', 'latchkey', url],
      env: { LATCHKEY_OAUTH: JSON.stringify(oauth) },
    },
  ],
  [
    'latchkey from the URL of a server',
    {
      command: 'npx',
      args: [
        '-y',
        '--prefer-offline',
        'https://cloud.example.com/download/latchkey-0.1.0.tgz?v=0123456789abcdef',
        url,
      ],
      env: { LATCHKEY_OAUTH: JSON.stringify(oauth) },
    },
  ],
  [
    'latchkey by path',
    {
      command: 'node',
      args: ['C:\\x\\bin\\latchkey.js', 'connect', url],
      env: { LATCHKEY_OAUTH: JSON.stringify(oauth) },
    },
  ],
])('connection: %s means the same', async (_, value) => {
  const { credentials } = await inFile(value);

  expect(credentials).toEqual({ ...clientCredentials, scopes: ['a', 'b'] });
});

test('connection: an apiKey in the entry or in its env is an API key', async () => {
  const key = { kind: 'api_key', apiKeySecret: 'mcp_1' };

  expect((await inFile({ url, apiKey: 'mcp_1' })).credentials).toEqual(key);
  expect(
    (await inFile({ command: 'latchkey', args: [url], env: { LATCHKEY_API_KEY: 'mcp_1' } }))
      .credentials,
  ).toEqual(key);
});

test.each([
  ['nothing at all', { url }, { kind: 'authorization_code' }],
  [
    'an id without a secret',
    { url, oauth: { clientId: 'c', redirectPort: 4711 } },
    { kind: 'authorization_code', clientId: 'c', redirectPort: 4711 },
  ],
  [
    'a secret for signing in',
    { url, oauth: { ...oauth, grant: 'authorization_code' } },
    { ...clientCredentials, kind: 'authorization_code', scopes: ['a', 'b'] },
  ],
  [
    'a private key',
    { url, oauth: { clientId: 'c', privateKeyFile: '/k.pem' } },
    { kind: 'client_credentials', clientId: 'c', privateKeyFile: '/k.pem' },
  ],
])('connection: %s decides the grant', async (_, value, credentials) => {
  expect((await inFile(value)).credentials).toEqual(credentials);
});

test('connection: Latchkey’s environment variables take precedence over the file', async () => {
  const env = { LATCHKEY_CLIENT_SECRET: 'other', LATCHKEY_API_KEY: '' };

  const fromEnvironment = await inFile({ url, oauth: { clientId: 'client_1' } }, env);
  const withKey = await inFile({ url, oauth }, { LATCHKEY_API_KEY: 'mcp_1' });

  expect(fromEnvironment.credentials).toMatchObject({ clientSecret: 'other' });
  expect(withKey.credentials).toMatchObject({ kind: 'api_key' });
});

test('connection: a URL needs no file and is kept byte for byte', async () => {
  const target = 'HTTPS://Cloud.example.com/mcp/a%2fb/c?x=1';

  expect(await read({}, { target })).toMatchObject({
    url: target,
    credentials: { kind: 'authorization_code' },
  });
});

test('connection: user-level files are searched, with comments and trailing commas', async () => {
  const code = '/h/.config/Code/User/mcp.json';
  const text = `{ // mine\n "servers": { "acme": { "url": "${url}", /* // */ }, }, }`;

  expect(await read({ [code]: text })).toMatchObject({ url, source: code });
});

test('connection: a name with two URLs is an error with both files; with one URL, the entry with a credential is used', async () => {
  const other = { url: `${url}/other` };
  const conflict = { '/h/.claude.json': entry({ url }), '/h/.cursor/mcp.json': entry(other) };
  const same = { '/h/.claude.json': entry({ url }), '/h/.cursor/mcp.json': entry({ url, oauth }) };

  const { message } = await problemsOf(read(conflict));

  expect(message).toContain('/h/.claude.json');
  expect(message).toContain('/h/.cursor/mcp.json');
  expect(await read(same)).toMatchObject({ source: '/h/.cursor/mcp.json' });
});

test('connection: an entry that only starts latchkey by name refers to another one', async () => {
  const desktop = '/h/.config/Claude/claude_desktop_config.json';

  expect(
    await read({
      [desktop]: entry({ command: 'latchkey', args: ['acme'] }),
      '/h/.cursor/mcp.json': entry({ url, oauth }),
    }),
  ).toMatchObject({ url });
});

test('connection: all problems are reported together, with file and key, never the value', async () => {
  const { problems, message } = await problemsOf(
    inFile({ url: 'ftp://x', oauth: { clientId: 5, clientSecret, scopes: 7, grant: 'magic' } }),
  );

  expect(problems.map(({ key }) => key)).toEqual([
    'mcpServers.acme',
    'mcpServers.acme.oauth.clientId',
    'mcpServers.acme.oauth.scopes',
    'mcpServers.acme.oauth.grant',
  ]);
  expect(message).toContain('/c.json');
  expect(message).not.toContain('secret_');
});

test.each([
  ['http elsewhere', { url: 'http://cloud.example.com/mcp' }, 'https'],
  ['a password in the URL', { url: 'https://me:pw@cloud.example.com/' }, 'without a user'],
  ['no URL', { oauth }, 'missing'],
  ['another program', { command: 'npx', args: ['other', url] }, 'another program'],
  ['a list', [], 'not an object'],
  ['two credentials', { url, oauth, apiKey: 'mcp_1' }, 'both'],
  [
    'a client without a secret',
    { url, oauth: { clientId: 'client_1', grant: 'client_credentials' } },
    'clientSecret: is missing',
  ],
  ['a key and a secret', { url, oauth: { ...oauth, privateKeyFile: 'k' } }, 'cannot be combined'],
  ['a plain metadata URL', { url, oauth: { clientMetadataUrl: 'http://x/c' } }, 'https URL'],
  ['a port out of range', { url, oauth: { redirectPort: 70_000 } }, 'not a port'],
  ['a key with a line break', { url, apiKey: 'mcp_\n1' }, 'not an API key'],
])('connection: %s is a problem', async (_, value, words) => {
  const { message } = await problemsOf(inFile(value));

  expect(message).toContain(words);
  expect(message).not.toMatch(/pw|mcp_\n/);
});

test.each([
  ['is absent', {}, 'does not exist'],
  ['is no JSON', { '/c.json': `{"clientSecret":"${clientSecret}"` }, 'is not valid JSON'],
  ['knows no such name', { '/c.json': {} }, 'no server named acme'],
])('connection: a file that %s is a problem', async (_, files, words) => {
  const { message } = await problemsOf(read(files, { config: '/c.json' }));

  expect(message).toContain(words);
  expect(message).toContain('/c.json');
  expect(message).not.toContain('secret_');
});

const cursor = '/h/.cursor/mcp.json';

test('connection: the error for an unknown name says how to list the names', async () => {
  const error = await problemsOf(read({}));

  expect(error).toMatchObject({
    message: 'no connection named acme',
    hint: 'latchkey status lists the connections, latchkey setup URL adds one',
    isUnknownName: true,
  });
});

test('connection: the error for a mistyped name suggests the similar one', async () => {
  const error = await problemsOf(read({ [cursor]: '{"mcpServers":{"acmee":{"url":"x"}}}' }));

  expect(error).toMatchObject({ hint: 'did you mean acmee?', isUnknownName: true });
});

test('connection: a file that cannot be read is not a mistyped name', async () => {
  const error = await problemsOf(read({}, { config: '/c.json' }));

  expect(error).toMatchObject({ hint: '', isUnknownName: false });
});

test('connection: each platform has its own file locations', () => {
  const env = { APPDATA: 'C:\\Users\\u\\AppData\\Roaming' };

  expect(userFiles({ platform: 'darwin', home: '/Users/u', env: {} }).slice(0, 2)).toEqual([
    '/Users/u/Library/Application Support/Latchkey/connections.json',
    '/Users/u/Library/Application Support/Claude/claude_desktop_config.json',
  ]);
  expect(userFiles({ platform: 'win32', home: 'C:\\Users\\u', env }).slice(0, 2)).toEqual([
    'C:\\Users\\u\\AppData\\Roaming\\Latchkey\\connections.json',
    'C:\\Users\\u\\AppData\\Roaming\\Claude\\claude_desktop_config.json',
  ]);
});

const registry = '/h/.config/latchkey/connections.json';

test('connection: one added in Latchkey takes precedence over an assistant’s entry with the same URL', async () => {
  const files = {
    [registry]: entry({ url, account: 'acme' }),
    [cursor]: entry({ url, oauth }),
  };

  expect(await read(files)).toEqual({
    name: 'acme',
    url,
    source: registry,
    account: 'acme',
    credentials: { kind: 'authorization_code' },
  });
});

test('connection: a name with another URL in an assistant’s file is an error that names both files', async () => {
  const files = {
    [registry]: entry({ url, account: 'acme' }),
    [cursor]: entry({ url: `${url}2` }),
  };

  const { message } = await problemsOf(read(files));

  expect(message).toContain(registry);
  expect(message).toContain(cursor);
});

test('connection: environment variables in headers are expanded, and unknown ones stay', async () => {
  const headers = { Authorization: 'Bearer ${TOKEN}', 'X-Team': '${NOBODY}', Accept: 'x/y' };

  const connection = await inFile({ url, headers, env: { TOKEN: 'abc' } });

  expect(connection.headers).toEqual({ authorization: 'Bearer abc', 'x-team': '${NOBODY}' });
});

test('connection: denied tools and the transport are read', async () => {
  expect(await inFile({ url, denyTools: ['delete*'], transport: 'sse-only' })).toMatchObject({
    denyTools: ['delete*'],
    transport: 'sse-only',
  });
});

test.each([
  [{ headers: ['x'] }, 'headers: is not an object'],
  [{ headers: { 'a b': 'x' } }, 'headers.a b: is not a valid HTTP header'],
  [{ headers: { 'X-A': 'secret_x\r\ny: z' } }, 'headers.X-A: is not a valid HTTP header'],
  [{ denyTools: 'x' }, 'denyTools: must be a list'],
  [{ transport: 'pigeon' }, 'transport: must be one of http-first'],
  [{ oauth: { redirectHost: 'evil.example' } }, 'redirectHost: is neither'],
  [{ oauth: { redirectPath: 'x?y' } }, 'redirectPath: is not a path'],
  [{ oauth: { resource: 'x' } }, 'resource: is not an absolute URI'],
  [{ oauth: { authorizeParams: { state: 'x' } } }, 'authorizeParams: does not accept state'],
])('connection: %j is refused', async (wrong, words) => {
  const { message } = await problemsOf(inFile({ url, ...wrong }));

  expect(message).toContain(words);
  expect(message).not.toContain('secret_');
});

test('connection: the word keychain means a stored secret, and is written back unchanged', async () => {
  const headers = { 'X-Pass': 'keychain', 'X-Team': 'red' };
  const key = { url, apiKey: 'keychain', headers };
  const client = { url, oauth: { ...oauth, clientSecret: 'keychain' } };
  const file = JSON.stringify({ mcpServers: { key, client } });
  const host = { platform: 'linux' as const, home: '/h', env: {} };
  const readFrom = async (name: string) => readConnection(name, '/x.json', host, () => file);
  const keyed = await readFrom('key');

  expect(keyed).toMatchObject({
    credentials: { kind: 'api_key', apiKeySecret: inKeychain },
    headers: { 'x-pass': inKeychain, 'x-team': 'red' },
  });
  expect(await readFrom('client')).toMatchObject({ credentials: { clientSecret: inKeychain } });
  expect(connectionEntry(keyed)).toEqual({
    url,
    apiKey: 'keychain',
    headers: { 'x-pass': 'keychain', 'x-team': 'red' },
  });
});
