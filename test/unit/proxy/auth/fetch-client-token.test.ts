import { expect, test } from 'vitest';
import { fetchClientToken } from '#proxy/auth/grants';
import { fakeClock } from '#support/fake-clock';
import { web, type Page } from '#support/web';

const url = 'https://mcp.example.com/mcp/acme/sales';
const resourceMetadata =
  'https://mcp.example.com/.well-known/oauth-protected-resource/mcp/acme/sales';
const rootMetadata = 'https://mcp.example.com/.well-known/oauth-protected-resource';
const issuer = 'https://as.example.com/tenant';
const serverMetadata = 'https://as.example.com/.well-known/oauth-authorization-server/tenant';
const token = 'https://as.example.com/tenant/token';
const clientSecret = 'secret with & and =';

const published: Record<string, Page> = {
  [url]: { status: 401 },
  [resourceMetadata]: { json: { resource: url, authorization_servers: [issuer] } },
  [serverMetadata]: { json: { issuer, token_endpoint: token } },
  [token]: { json: { access_token: 'at', token_type: 'bearer', expires_in: 60, scope: 'a b' } },
};

type Overrides = Partial<Parameters<typeof fetchClientToken>[0]>;

async function fetched(pages: Record<string, Page>, overrides: Overrides = {}) {
  const { http, requests, asked } = web(pages);
  const clock = fakeClock(1_000);
  const client = { clientId: 'client id', clientSecret };
  const credentials = { scopes: ['a', 'b'] };
  const result = fetchClientToken({ url, client, credentials, ...overrides }, { http, clock });
  result.catch(() => undefined);
  return { result, requests, asked };
}

test('client token: discovery leads from the resource to its authorization server and a token for it', async () => {
  const { result, requests, asked } = await fetched(published);

  expect(await result).toEqual({
    accessToken: 'at',
    obtainedAt: 1_000,
    expiresAt: 1_060,
    issuer,
    published: true,
    scope: 'a b',
  });
  expect(asked()).toEqual([url, resourceMetadata, serverMetadata, token]);
  expect(Object.fromEntries(requests.at(-1)?.form ?? [])).toEqual({
    grant_type: 'client_credentials',
    scope: 'a b',
    resource: url,
  });
  const basic = Buffer.from('client+id:secret+with+%26+and+%3D').toString('base64');
  expect(requests.at(-1)?.headers['authorization']).toBe(`Basic ${basic}`);
});

test.each<[string, unknown, number | undefined]>([
  ['a fraction is rounded down', 3599.5, 1_000 + 3599],
  ['less than a second is one', 0.2, 1_001],
  ['a number that no clock reaches is ten years', 1e17, 1_000 + 10 * 365 * 86_400],
  ['text is read as a number', '60', 1_060],
  ['a negative one is none', -5, undefined],
  ['what is no number is none', 'soon', undefined],
])('client token: its lifetime: %s', async (_, expiresIn, expiresAt) => {
  const { result } = await fetched({
    ...published,
    [token]: { json: { access_token: 'at', token_type: 'bearer', expires_in: expiresIn } },
  });

  expect((await result).expiresAt).toBe(expiresAt);
});

test('client token: the metadata is read from the URL in the challenge of a 401', async () => {
  const there = 'https://mcp.example.com/elsewhere';
  const { result, asked } = await fetched(
    { ...published, [there]: published[resourceMetadata] ?? {} },
    { challenge: `Basic realm="x", Bearer error="invalid_token", resource_metadata="${there}"` },
  );
  await result;

  expect(asked()[0]).toBe(there);
});

test('client token: the root form and both forms of server metadata are tried in turn', async () => {
  const openid = 'https://as.example.com/tenant/.well-known/openid-configuration';
  const { result, asked } = await fetched({
    ...published,
    [resourceMetadata]: { status: 404 },
    [rootMetadata]: {
      json: { resource: 'https://mcp.example.com/', authorization_servers: [issuer] },
    },
    [serverMetadata]: { status: 404 },
    [openid]: { json: { issuer, token_endpoint: token } },
  });
  await result;

  expect(asked()).toEqual([
    url,
    resourceMetadata,
    rootMetadata,
    serverMetadata,
    'https://as.example.com/.well-known/openid-configuration/tenant',
    openid,
    token,
  ]);
});

test('client token: the secret goes into the body where the server requires it there', async () => {
  const { result, requests } = await fetched({
    ...published,
    [serverMetadata]: {
      json: {
        issuer,
        token_endpoint: token,
        token_endpoint_auth_methods_supported: ['private_key_jwt', 'client_secret_post'],
      },
    },
  });
  await result;

  expect(requests.at(-1)?.form.get('client_secret')).toBe(clientSecret);
  expect(requests.at(-1)?.headers['authorization']).toBeUndefined();
});

test('client token: a resource without metadata has its token endpoint at /api/oauth/token', async () => {
  const own = 'https://mcp.example.com/api/oauth/token';
  const pages = { [own]: published[token] ?? {} };

  expect(await (await fetched(pages)).result).toMatchObject({
    issuer: 'https://mcp.example.com',
    published: false,
  });
  const previous = { issuer: 'https://mcp.example.com', published: true };
  await expect((await fetched(pages, { previous })).result).rejects.toMatchObject({
    code: 'metadata',
  });
});

test.each<[string, string, Record<string, Page>, Overrides?]>([
  [
    'metadata of another resource',
    'metadata',
    {
      [resourceMetadata]: {
        json: { resource: 'https://mcp.example.com/other', authorization_servers: [issuer] },
      },
    },
  ],
  [
    'a server that calls itself something else',
    'issuer',
    { [serverMetadata]: { json: { issuer: `${issuer}/`, token_endpoint: token } } },
  ],
  [
    'a token endpoint on this machine',
    'metadata',
    { [serverMetadata]: { json: { issuer, token_endpoint: 'http://127.0.0.1/token' } } },
  ],
  [
    'a server that takes no secret',
    'metadata',
    {
      [serverMetadata]: {
        json: { issuer, token_endpoint: token, token_endpoint_auth_methods_supported: ['none'] },
      },
    },
  ],
  [
    'another issuer than configured',
    'issuer',
    {},
    { credentials: { clientId: 'c', clientSecret, issuer: 'https://mine.example' } },
  ],
  [
    'another issuer than last time',
    'issuer',
    {},
    { previous: { issuer: 'https://old.example', published: true } },
  ],
  ['a server in trouble', 'unreachable', { [resourceMetadata]: { status: 503 } }],
  ['no server at all', 'unreachable', { [serverMetadata]: { status: 0 } }],
  ['an answer without a token', 'metadata', { [token]: { json: { ok: true } } }],
  ['a token that breaks the header', 'metadata', { [token]: { json: { access_token: 'a\r\nb' } } }],
  [
    'a challenge that points to plain http',
    'metadata',
    {},
    { challenge: 'Bearer resource_metadata="http://mcp.example.com/x"' },
  ],
])('client token: %s is refused', async (_, code, pages, overrides) => {
  const { result } = await fetched({ ...published, ...pages }, overrides);

  await expect(result).rejects.toMatchObject({ name: 'OAuthError', code });
});

test('client token: an error names endpoint, status and reason, without what was sent', async () => {
  const json = { error: 'invalid_client', error_description: `not ${clientSecret}\u001b[31m` };
  const { result } = await fetched({ ...published, [token]: { status: 401, json } });

  await expect(result).rejects.toMatchObject({
    code: 'refused',
    details: {
      endpoint: token,
      status: 401,
      error: 'invalid_client',
      errorDescription: 'not [redacted] [31m',
    },
  });
});

const resourceAt = (place: string) =>
  new URL(place).origin + '/.well-known/oauth-protected-resource/mcp';
const guarded = (place: string, tokenEndpoint: string): Record<string, Page> => {
  const { origin } = new URL(place);
  const issued = { issuer: origin, token_endpoint: tokenEndpoint };
  return {
    [place]: { status: 401 },
    [resourceAt(place)]: { json: { resource: place, authorization_servers: [origin] } },
    [`${origin}/.well-known/oauth-authorization-server`]: { json: issued },
    [tokenEndpoint]: { json: { access_token: 'at', token_type: 'bearer' } },
  };
};

test.each([
  ['on this machine', 'http://127.0.0.1:8787/mcp', 'http://localhost:9000/token'],
  ['on this machine', 'http://localhost:8787/mcp', 'https://10.0.0.6/token'],
  ['in a private network', 'https://10.0.0.5/mcp', 'https://192.168.1.6/token'],
  ['in a private network', 'https://10.0.0.5/mcp', 'https://login.example.com/token'],
])(
  'client token: a server %s (%s) may have its token endpoint at %s',
  async (_, place, endpoint) => {
    const { result } = await fetched(guarded(place, endpoint), { url: place });

    expect(await result).toMatchObject({ accessToken: 'at' });
  },
);

test('client token: a server in a private network may not have an endpoint on loopback', async () => {
  const place = 'https://10.0.0.5/mcp';
  const endpoint = 'https://127.0.0.1/token';
  const { result, asked } = await fetched(guarded(place, endpoint), { url: place });

  await expect(result).rejects.toMatchObject({
    code: 'metadata',
    message: expect.stringContaining(
      '127.0.0.1 is on this machine, but the server that names it is not',
    ),
  });
  expect(asked()).not.toContain(endpoint);
});

test('client token: an issuer chosen by the user may have endpoints in its own network or further outside', async () => {
  const inside = 'https://10.0.0.6';
  const pages = (endpoint: string): Record<string, Page> => ({
    ...published,
    [resourceMetadata]: { json: { resource: url, authorization_servers: [inside] } },
    [`${inside}/.well-known/oauth-authorization-server`]: {
      json: { issuer: inside, token_endpoint: endpoint },
    },
    [endpoint]: { json: { access_token: 'at', token_type: 'bearer' } },
  });
  const credentials = { clientId: 'c', clientSecret, issuer: inside };
  const beside = await fetched(pages('https://10.0.0.7/token'), { credentials });
  const here = await fetched(pages('https://127.0.0.1/token'), { credentials });
  const unnamed = await fetched(pages('https://10.0.0.7/token'));

  expect(await beside.result).toMatchObject({ accessToken: 'at', issuer: inside });
  await expect(here.result).rejects.toMatchObject({ code: 'metadata' });
  await expect(unnamed.result).rejects.toMatchObject({ code: 'metadata' });
});
