import { DatabaseSync } from 'node:sqlite';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { decodeProtectedHeader } from 'jose';
import { afterAll, expect, test } from 'vitest';
import { z } from 'zod';
import { readMasterKey } from '#server/secrets/master-key';
import { acmeServer } from '#support/acme-server';
import { rawHttp } from '#support/raw-http';
import { spellings } from '#support/spellings';

// Behind a listed proxy, so that the server trusts forwarded headers as much as it ever does.
const server = await acmeServer({ args: ['--trust-proxy', '127.0.0.1'] });
afterAll(() => server[Symbol.asyncDispose]());

const resource = '/.well-known/oauth-protected-resource/mcp';
const documents = [
  '/.well-known/oauth-authorization-server',
  '/.well-known/jwks.json',
  `${resource}/acme/fixture`,
];

const evilHeaders: Record<string, string>[] = [
  { 'X-Forwarded-Host': 'evil.example' },
  { 'X-Forwarded-Host': 'evil.example', 'X-Forwarded-Proto': 'https', 'X-Forwarded-Port': '1' },
  { Forwarded: 'host=evil.example;proto=https' },
  { 'X-Original-Host': 'evil.example', 'X-Host': 'evil.example' },
  { 'X-Original-URL': '//evil.example/', 'X-Rewrite-URL': '//evil.example/' },
  { Origin: 'https://evil.example', Referer: 'https://evil.example/' },
];

test('50: metadata: the issuer is the base URL, and every URL is below it', async () => {
  const { json, status } = await server.request('/.well-known/oauth-authorization-server');

  expect(status).toBe(200);
  expect(json).toMatchObject({
    issuer: server.base,
    token_endpoint: `${server.base}/api/oauth/token`,
    revocation_endpoint: `${server.base}/api/oauth/revoke`,
    jwks_uri: `${server.base}/.well-known/jwks.json`,
  });
  const urls = Object.values(json).filter((value) => String(value).startsWith('http'));
  expect(urls.filter((url) => !String(url).startsWith(server.base))).toEqual([]);
});

test.each(documents)('50: metadata: no request header changes %s', async (path) => {
  const plain = await server.request(path);

  expect(plain.status).toBe(200);
  for (const headers of evilHeaders) {
    const answer = await server.request(path, { headers });

    expect(answer.text).toBe(plain.text);
    expect([...answer.headers.values()].join('\n')).not.toContain('evil');
  }
});

test('50: metadata: no request header changes the challenge of an MCP endpoint', async () => {
  for (const { Origin: _, ...headers } of evilHeaders) {
    const answer = await server.call(headers);

    expect(answer.status).toBe(401);
    expect(answer.headers.get('www-authenticate')).toContain(
      `resource_metadata="${server.base}${resource}/acme/fixture"`,
    );
    expect(answer.text).not.toContain('evil');
  }
});

test('50: Host: a request that names another host is refused', async () => {
  const own = `127.0.0.1:${server.port}`;
  const foreign = [
    'evil.example',
    `evil.example:${server.port}`,
    `${own}.evil.example`,
    `evil.example@${own}`,
    '127.0.0.1',
    `localhost:${server.port}`,
    `${own},evil.example`,
    '',
  ];
  for (const path of [...documents, '/mcp/acme/fixture', '/api/oauth/token', '/nothing']) {
    for (const host of foreign) {
      const { statuses, text } = await rawHttp(
        server.port,
        `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
      );

      expect([[400], [421]]).toContainEqual(statuses);
      expect(text).not.toContain('evil');
    }
  }
});

test('50: Host: two Host headers are refused', async () => {
  const own = `Host: 127.0.0.1:${server.port}`;
  for (const hosts of [`${own}\r\nHost: evil.example`, `Host: evil.example\r\n${own}`]) {
    const { statuses } = await rawHttp(
      server.port,
      `GET ${documents[0]} HTTP/1.1\r\n${hosts}\r\nConnection: close\r\n\r\n`,
    );

    expect([[400], [421]]).toContainEqual(statuses);
  }
});

test('51: metadata: that of an MCP endpoint is built from its path alone', async () => {
  const known = await server.request(`${resource}/acme/fixture`);
  const unknown = await server.request(`${resource}/nobody/nothing`);

  expect(known.status).toBe(200);
  expect(known.json).toEqual({
    resource: `${server.base}/mcp/acme/fixture`,
    authorization_servers: [server.base],
    scopes_supported: ['mcp:tools:read', 'mcp:tools:execute', 'mcp:resources:read'],
    bearer_methods_supported: ['header'],
  });
  expect(unknown.status).toBe(200);
  expect(unknown.text).toBe(known.text.replace('acme/fixture', 'nobody/nothing'));
  const told = ({ headers }: typeof known) =>
    [...headers].filter(([name]) => !['date', 'x-request-id', 'content-length'].includes(name));
  expect(told(unknown)).toEqual(told(known));
});

test.each([
  '/ACME/fixture',
  '/acme/-x',
  '/acme/x-',
  '/acme/a%2fb',
  '/acme/%2e%2e',
  '/acme/"x',
  '/acme/%22%3e',
  '/acme/x%0d%0aSet-Cookie:x',
  '/acme/fixture/',
  '/acme/fixture/x',
  '/acme/%00',
  '/acme',
  '',
  `/acme/${'a'.repeat(64)}`,
])(
  '51: metadata: %s is not the path of an endpoint, and its metadata is a clean 404',
  async (path) => {
    const answer = await server.request(resource + path);

    expect(answer.status).toBe(404);
    expect(answer.json['error']).toBe('not_found');
    expect(answer.headers.get('set-cookie')).toBeNull();
  },
);

test('51: metadata: probes for other documents get a clean 404', async () => {
  const probes = [
    '/.well-known/openid-configuration',
    '/.well-known/openid-configuration/mcp/acme/fixture',
    '/mcp/acme/fixture/.well-known/openid-configuration',
    '/.well-known/oauth-authorization-server/mcp/acme/fixture',
    '/.well-known/oauth-protected-resource',
  ];
  for (const path of probes) {
    const answer = await server.request(path);

    expect(answer.status).toBe(404);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json\b/);
  }
});

test('51: metadata: any page may read the documents, without sending credentials', async () => {
  for (const path of documents) {
    const { headers } = await server.request(path, { headers: { Origin: 'https://a.example' } });

    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(headers.get('access-control-allow-credentials')).toBeNull();
  }
});

test('52: JWKS: it holds exactly the public members of the signing key', async () => {
  const { json } = await server.request('/.well-known/jwks.json');
  const { kid } = decodeProtectedHeader(await server.token(await server.client()));

  expect(Object.keys(json)).toEqual(['keys']);
  expect(json['keys']).toEqual([
    {
      kty: 'OKP',
      crv: 'Ed25519',
      x: expect.stringMatching(/^[\w-]{43}$/),
      kid,
      alg: 'EdDSA',
      use: 'sig',
    },
  ]);
});

test('52: signing key: its private part is in no file in any spelling, except encrypted with the master key', async () => {
  const { dataDir } = server;
  using database = new DatabaseSync(join(dataDir, 'latchkey.db'), { readOnly: true });
  const row = z
    .object({ kid: z.string(), public_jwk: z.string(), encrypted_private_key: z.string() })
    .parse(database.prepare('select * from signing_key').get());
  const master = readMasterKey(join(dataDir, 'master.key'), { mayCreate: false });
  const pem = master.open(`signing-key ${row.kid}`, row.encrypted_private_key);
  const privateKey = createPrivateKey(pem);
  const { d = '', x } = privateKey.export({ format: 'jwk' });
  expect(JSON.parse(row.public_jwk)).toMatchObject({ x, kid: row.kid });
  expect(createPublicKey(privateKey).export({ format: 'jwk' })).toMatchObject({ x });

  const seed = Buffer.from(d, 'base64url');
  const der = privateKey.export({ format: 'der', type: 'pkcs8' });
  const sought = [seed, der].flatMap((secret) => spellings(secret));
  const files = readdirSync(dataDir, { recursive: true, encoding: 'utf8' })
    .map((name) => join(dataDir, name))
    .filter((file) => statSync(file).isFile());

  expect(files).toContain(join(dataDir, 'latchkey.db-wal'));
  for (const file of files) {
    const bytes = readFileSync(file);
    expect(sought.filter((spelling) => bytes.includes(spelling))).toEqual([]);
    expect(bytes.includes('PRIVATE KEY')).toBe(false);
    // Only their owner may read the files with the other secrets: the database, its logs and the master key.
    expect(statSync(file).mode & 0o077).toBe(0);
  }
  // The same search finds what is not encrypted.
  const publicKey = spellings(Buffer.from(x ?? '', 'base64url'));
  const found = files.map((file) => readFileSync(file));
  expect(publicKey.some((spelling) => found.some((bytes) => bytes.includes(spelling)))).toBe(true);
});
