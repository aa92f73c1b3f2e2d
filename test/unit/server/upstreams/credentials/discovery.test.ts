import { expect, test } from 'vitest';

import { OutboundError } from '#server/outbound/checked-addresses';
import { discover, type DiscoveryRequest } from '#server/upstreams/credentials/discovery';

const url = 'https://mcp.example/team/mcp';
const issuer = 'https://as.example/tenant';
const resourcePath = 'https://mcp.example/.well-known/oauth-protected-resource/team/mcp';
const serverPath = 'https://as.example/.well-known/oauth-authorization-server/tenant';
const about = { resource: url, authorization_servers: [issuer], scopes_supported: ['a', 'b'] };
const metadata = {
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  code_challenge_methods_supported: ['S256'],
};

type Web = Record<string, object | string | undefined>;
const usual: Web = { [resourcePath]: about, [serverPath]: metadata };

/** Discovers on a web of these documents, in which the text at `url` is the challenge of the upstream. */
async function found(web: Web, wish: Partial<DiscoveryRequest> = {}) {
  const asked: string[] = [];
  const outcome = await discover(
    { url, kind: 'authorization_code', ...wish },
    async (place, { method = 'GET' } = {}) => {
      asked.push(`${method} ${place}`);
      const document = web[place];
      if (document === 'private') throw new OutboundError('forbidden', 'private');
      const headers = typeof document === 'string' ? { 'www-authenticate': document } : {};
      if (method === 'POST') return new Response('', { status: 401, headers });
      return document === undefined
        ? new Response('', { status: 404 })
        : new Response(JSON.stringify(document));
    },
  );
  return { ...outcome, asked };
}

test('the upstream names its authorization server, and its own resource', async () => {
  expect(await found(usual)).toEqual({
    metadata,
    resource: url,
    scopes: ['a', 'b'],
    asked: [`POST ${url}`, `GET ${resourcePath}`, `GET ${serverPath}`],
  });
});

test('the challenge links to the metadata, and names the required scopes', async () => {
  const place = 'https://mcp.example/meta';
  const challenge = `Bearer error="invalid_token", resource_metadata="${place}", scope="c d"`;
  const { scopes, asked } = await found({ ...usual, [url]: challenge, [place]: about });

  expect(scopes).toEqual(['c', 'd']);
  expect(asked[1]).toBe(`GET ${place}`);
});

test('metadata at the root, of an enclosing resource, and at both paths of OpenID is accepted', async () => {
  const root = 'https://mcp.example/.well-known/oauth-protected-resource';
  const wide = { ...about, resource: 'https://mcp.example/team' };
  const openId = `${issuer}/.well-known/openid-configuration`;
  const { resource, asked } = await found({ [root]: wide, [openId]: metadata });

  expect(resource).toBe('https://mcp.example/team');
  expect(asked.slice(-3)).toEqual([
    `GET ${serverPath}`,
    'GET https://as.example/.well-known/openid-configuration/tenant',
    `GET ${openId}`,
  ]);
});

test('a configured issuer is enough, and its token is requested for the URL itself', async () => {
  const { resource, scopes } = await found({ [serverPath]: metadata }, { issuer });

  expect([resource, scopes]).toEqual([url, []]);
});

test('a server that offers refresh tokens gets a request for one, for people only', async () => {
  const offering = { ...metadata, scopes_supported: ['offline_access'] };
  const web = { ...usual, [serverPath]: offering };

  expect((await found(web)).scopes).toEqual(['a', 'b', 'offline_access']);
  expect((await found(web, { kind: 'client_credentials' })).scopes).toEqual(['a', 'b']);
});

test.each<[string, Web, Partial<DiscoveryRequest>]>([
  ['metadata of another resource', { [resourcePath]: { ...about, resource: 'https://x/' } }, {}],
  ['metadata of a sibling', { [resourcePath]: { ...about, resource: `${url}-2` } }, {}],
  [
    'an authorization server that is another',
    { [serverPath]: { ...metadata, issuer: 'https://x' } },
    {},
  ],
  ['an issuer with a slash more', { [serverPath]: { ...metadata, issuer: `${issuer}/` } }, {}],
  ['one who was not named by the upstream', {}, { issuer: 'https://as.evil' }],
  ['no S256', { [serverPath]: { ...metadata, code_challenge_methods_supported: ['plain'] } }, {}],
  [
    'no word of PKCE',
    { [serverPath]: { ...metadata, code_challenge_methods_supported: undefined } },
    {},
  ],
  ['no page to consent', { [serverPath]: { ...metadata, authorization_endpoint: undefined } }, {}],
  [
    'a token endpoint over http',
    { [serverPath]: { ...metadata, token_endpoint: 'http://as.example/t' } },
    {},
  ],
  [
    'a consent page that is a script',
    { [serverPath]: { ...metadata, authorization_endpoint: 'javascript:1' } },
    {},
  ],
  ['no metadata', { [serverPath]: undefined }, {}],
  ['nobody named', { [resourcePath]: { resource: url } }, {}],
  [
    'a challenge whose metadata is not there',
    { [url]: 'Bearer resource_metadata="https://mcp.example/x"' },
    {},
  ],
])('refused: %s', async (_, web, wish) => {
  await expect(found({ ...usual, ...web }, wish)).rejects.toMatchObject({ code: 'unusable' });
});

test.each([url, resourcePath, serverPath])(
  '76: %s in a private network is refused',
  async (place) => {
    await expect(found({ ...usual, [place]: 'private' })).rejects.toMatchObject({
      code: 'forbidden',
    });
  },
);

test('fixed headers are sent to the origin of the upstream, and to no other', async () => {
  const elsewhere = 'https://mcp.example.evil/meta';
  const challenged: Web = {
    ...usual,
    [url]: `Bearer resource_metadata="${elsewhere}"`,
    [elsewhere]: about,
  };
  const headers = { 'x-key': 'value', accept: 'text/plain' };
  const asked: [string, Readonly<Record<string, string>> | undefined][] = [];
  const look = async (web: Web) => {
    asked.length = 0;
    await discover({ url, kind: 'authorization_code', headers }, async (place, request) => {
      asked.push([new URL(place).host, request?.headers]);
      const document = web[place];
      const challenge = typeof document === 'string' ? { 'www-authenticate': document } : {};
      if (request?.method === 'POST') return new Response('', { status: 401, headers: challenge });
      return new Response(JSON.stringify(document));
    });
    return asked.map(([host, sent]) => [host, sent?.['x-key'], sent?.['accept']]);
  };

  expect(await look(usual)).toEqual([
    ['mcp.example', 'value', 'application/json, text/event-stream'],
    ['mcp.example', 'value', 'application/json'],
    ['as.example', undefined, 'application/json'],
  ]);
  expect((await look(challenged)).slice(1)).toEqual([
    ['mcp.example.evil', undefined, 'application/json'],
    ['as.example', undefined, 'application/json'],
  ]);
});
