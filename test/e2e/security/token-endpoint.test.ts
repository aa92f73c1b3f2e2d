import { randomBytes } from 'node:crypto';

import { afterAll, describe, expect, test } from 'vitest';
import { acmeServer, basic, bearer, ordinaryScopes } from '#support/acme-server';

// The server tolerates twenty failures from one address, or for one client, so each try here has its own.
const server = await acmeServer({ args: ['--trust-proxy', '127.0.0.1'] });
afterAll(() => server[Symbol.asyncDispose]());
const client = await server.client();
const grant = { grant_type: 'client_credentials' };
const inBody = { ...grant, client_id: client.id, client_secret: client.secret };
/** As well formed as a real one: checksum and all. */
const wrongSecret = (await server.client()).secret;
const token = '/api/oauth/token';

/** An address of the range for documentation that nobody had before. RFC 3849 */
const someAddress = () => `2001:db8:${randomBytes(12).toString('hex').match(/.{4}/g)?.join(':')}`;

const post: typeof server.post = (path, body, headers = {}) =>
  server.post(path, body, { 'X-Forwarded-For': someAddress(), ...headers });

test('24: token response: it is not cached, and names type, lifetime and scopes', async () => {
  const answer = await post(token, inBody);

  expect(answer.status).toBe(200);
  expect(answer.headers.get('cache-control')).toBe('no-store');
  expect(answer.headers.get('content-type')).toMatch(/^application\/json\b/);
  expect(answer.json).toEqual({
    access_token: expect.stringMatching(/^eyJ[\w-]+\.[\w-]+\.[\w-]{86}$/),
    token_type: 'Bearer',
    expires_in: 3600,
    scope: 'mcp:tools:read mcp:tools:execute mcp:resources:read',
  });
});

test.each([
  'mcp:resources:read  mcp:tools:read',
  'mcp:tools:read,mcp:resources:read',
  ' mcp:tools:read, mcp:resources:read,mcp:tools:read ',
])(
  "24: scopes: for '%s' the response names each once, separated by single spaces",
  async (scope) => {
    const answer = await post(token, { ...inBody, scope });

    expect(answer.json['scope']).toBe('mcp:tools:read mcp:resources:read');
  },
);

test.each(['mcp:server:manage', 'mcp:tools:read admin', 'MCP:TOOLS:READ'])(
  "24: scopes: '%s' exceeds the client’s own, and nothing is granted",
  async (scope) => {
    const answer = await post(token, { ...inBody, scope });

    expect(answer.status).toBe(400);
    expect(answer.json['error']).toBe('invalid_scope');
    expect(answer.headers.get('cache-control')).toBe('no-store');
  },
);

test('25: client secret: one in the URL is refused, and the URL is not logged', async () => {
  const query = new URLSearchParams(inBody).toString();

  const alone = await post(`${token}?${query}`, '');
  const beside = await post(`${token}?client_secret=${client.secret}`, inBody);
  const harmless = await post(`${token}?utm_source=docs`, inBody);

  for (const answer of [alone, beside, harmless]) {
    expect(answer.status).toBe(400);
    expect(answer.json['error']).toBe('invalid_request');
    expect(answer.text).not.toContain('access_token');
  }
  await server.program.line(new RegExp(String(harmless.headers.get('x-request-id'))), {
    stream: 'stderr',
  });
  expect(server.program.stderr).not.toMatch(/utm_source|client_secret=|grant_type=/);
  expect(server.program.stderr).not.toContain(client.secret);
});

describe('26: client authentication: a wrong secret, an unknown and a revoked client', async () => {
  const revoked = await server.client();
  await server.command('client', 'revoke', revoked.id);
  const unknown = `client_${'A'.repeat(24)}`;
  const causes = {
    'wrong secret': { id: client.id, secret: wrongSecret },
    'unknown client': { id: unknown, secret: client.secret },
    'revoked client': revoked,
    'secret with a wrong checksum': { id: client.id, secret: `secret_${'0'.repeat(36)}` },
    'no secret at all': { id: client.id, secret: '' },
  };

  test('26: get the same response byte for byte', async () => {
    const bodies = new Set<string>();
    for (const { id, secret } of Object.values(causes)) {
      const answer = await post(token, {
        ...grant,
        client_id: id,
        client_secret: secret,
      });
      expect(answer.status).toBe(401);
      expect(answer.headers.get('www-authenticate')).toBeNull();
      bodies.add(answer.text);
    }

    expect(bodies.size).toBe(1);
    expect([...bodies][0]).toContain('"error":"invalid_client"');
  });

  test('26: are told to use Basic if, and only if, they did', async () => {
    for (const { id, secret } of Object.values(causes)) {
      const answer = await post(token, grant, basic(id, secret));

      expect(answer.status).toBe(401);
      expect(answer.json['error']).toBe('invalid_client');
      expect(answer.headers.get('www-authenticate')).toMatch(/^Basic realm="/);
    }
  });
});

test('27: client authentication: header and body together are refused', async () => {
  const both = await post(token, inBody, basic(client.id, client.secret));
  const otherId = await post(
    token,
    { ...grant, client_id: `client_${'A'.repeat(24)}` },
    basic(client.id, client.secret),
  );

  for (const answer of [both, otherId]) {
    expect(answer.status).toBe(400);
    expect(answer.json['error']).toBe('invalid_request');
  }
});

test('27: client authentication: Basic works percent-encoded, with its scheme in any case', async () => {
  const percent = (text: string) =>
    [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
  const encoded = Buffer.from(`${percent(client.id)}:${percent(client.secret)}`);

  for (const scheme of ['Basic', 'basic', 'BASIC']) {
    const headers = { Authorization: `${scheme} ${encoded.toString('base64')}` };
    const answer = await post(token, { ...grant, client_id: client.id }, headers);

    expect(answer.status).toBe(200);
  }
});

test('27: client authentication: an unknown scheme or an incomplete Basic fails', async () => {
  const headers = [
    bearer(client.secret),
    { Authorization: 'Basic' },
    { Authorization: 'Basic !!!!' },
    { Authorization: `Basic ${Buffer.from('no colon').toString('base64')}` },
    { Authorization: `Basic ${Buffer.from(client.id).toString('base64')}:${client.secret}` },
  ];
  for (const header of headers) {
    const answer = await post(token, grant, header);

    expect(answer.status).toBe(401);
    expect(answer.json['error']).toBe('invalid_client');
    expect(answer.headers.get('www-authenticate')).toMatch(/^Basic /);
  }
});

test.each([
  ['missing', { ...inBody, grant_type: '' }, 'invalid_request'],
  ['password', { ...inBody, grant_type: 'password' }, 'unsupported_grant_type'],
  ['implicit', { ...inBody, grant_type: 'implicit' }, 'unsupported_grant_type'],
  ['unknown', { ...inBody, grant_type: '__proto__' }, 'unsupported_grant_type'],
  ['upper case', { ...inBody, grant_type: 'CLIENT_CREDENTIALS' }, 'unsupported_grant_type'],
])('28: token request: a grant_type that is %s is refused', async (_, parameters, error) => {
  const answer = await post(token, parameters);

  expect(answer.status).toBe(400);
  expect(answer.json['error']).toBe(error);
});

test.each(['grant_type', 'client_id', 'client_secret', 'scope', 'resource', 'unheard_of'])(
  '28: token request: %s twice is refused, even with equal values',
  async (name) => {
    const all: Record<string, string> = { ...inBody, scope: 'mcp:tools:read', unheard_of: '1' };
    all['resource'] = `${server.base}/mcp/acme/fixture`;
    const once = new URLSearchParams(all).toString();
    const again = new URLSearchParams({ [name]: all[name] ?? '' }).toString();

    expect((await post(token, once)).status).toBe(200);
    for (const twice of [`${once}&${again}`, `${once}&${name}=`, `${name}=&${once}`]) {
      const answer = await post(token, twice);

      expect(answer.status).toBe(400);
      expect(answer.json['error']).toBe('invalid_request');
    }
  },
);

test('29: client credentials: refused without the secret or with a wrong one', async () => {
  const idOnly = { ...grant, client_id: client.id };
  const without = await post(token, idOnly);
  const empty = await post(token, { ...idOnly, client_secret: '' });
  const wrong = await post(token, { ...idOnly, client_secret: wrongSecret });
  const nobody = await post(token, grant);

  for (const answer of [without, empty, wrong]) {
    expect(answer.status).toBe(401);
    expect(answer.json['error']).toBe('invalid_client');
  }
  expect(nobody.status).toBe(400);
});

test('29: client credentials: another client’s secret, or an API key, is refused', async () => {
  const other = await server.client();
  const { key } = await server.key();

  for (const secret of [other.secret, key]) {
    const answer = await post(token, { ...inBody, client_secret: secret });

    expect(answer.status).toBe(401);
  }
});

test('30: client credentials: no refresh token is issued, requested or not', async () => {
  const answers = [
    await post(token, inBody),
    await post(token, { ...inBody, scope: ordinaryScopes.join(' ') }),
    await post(token, { ...inBody, scope: 'mcp:tools:read offline_access' }),
    await post(token, { ...inBody, access_type: 'offline' }),
  ];

  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(3);
  for (const { text } of answers) expect(text).not.toContain('rt_');
  for (const { json } of answers) expect(Object.keys(json)).not.toContain('refresh_token');
});

test('41: access token: its audience is exactly one MCP endpoint', async () => {
  const resource = `${server.base}/mcp/acme/fixture`;

  for (const parameters of [inBody, { ...inBody, resource }]) {
    const { json } = await post(token, parameters);
    const [, claims = ''] = String(json['access_token']).split('.');

    expect(JSON.parse(Buffer.from(claims, 'base64url').toString())).toMatchObject({
      iss: server.base,
      aud: resource,
      client_id: client.id,
      sub: client.id,
    });
  }
});

test('41: resource: one that is not the client’s own server is refused', async () => {
  await server.command('server', 'create', 'acme/other', '--http-url', server.upstream.url);
  const own = `${server.base}/mcp/acme/fixture`;
  const foreign = [
    `${server.base}/mcp/acme/other`,
    `${own}/`,
    `${own}?x=1`,
    `${own}#x`,
    own.toUpperCase(),
    'https://evil.example/mcp/acme/fixture',
    server.base,
    'acme/fixture',
  ];
  for (const resource of foreign) {
    const { status, json } = await post(token, { ...inBody, resource });

    const refused = { resource, status: 400, error: 'invalid_target' };
    expect({ resource, status, error: json['error'] }).toEqual(refused);
  }
});
