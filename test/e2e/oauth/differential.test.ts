import { createServer, type Server } from 'node:http';

import { Provider } from 'oidc-provider';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { pkcePair } from '#support/authorization-server';
import { grantingServer, type GrantingServer } from '#support/granting-server';
import { listen } from '#support/loopback';

const redirectUri = 'https://app.example/cb';
const clientSecret = 'a secret of the other server';
const { challenge } = pkcePair();

let ours: GrantingServer;
let theirs: { base: string; server: Server };
beforeAll(async () => {
  ours = await grantingServer();
  const server = createServer();
  const base = `http://127.0.0.1:${await listen(server)}`;
  const client = {
    client_id: ours.client.id,
    client_secret: clientSecret,
    redirect_uris: [redirectUri],
    grant_types: ['authorization_code', 'refresh_token', 'client_credentials'],
    response_types: ['code'],
    token_endpoint_auth_method: 'client_secret_post',
  };
  const configuration = {
    clients: [client],
    scopes: ['openid', 'offline_access', 'mcp:tools:read', 'mcp:tools:execute'],
    pkce: { required: () => true },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      introspection: { enabled: true },
      revocation: { enabled: true },
    },
    claims: {},
    findAccount: (_context: unknown, sub: string) => ({ accountId: sub, claims: () => ({ sub }) }),
  };
  const provider = new Provider(base, configuration);
  server.on('request', provider.callback());
  theirs = { base, server };
});
afterAll(async () => {
  theirs.server.closeAllConnections();
  await new Promise((resolve) => theirs.server.close(resolve));
  await ours[Symbol.asyncDispose]();
});

/** `redirect invalid_scope` or `page invalid_request`: where an error went, and its code. */
async function authorizeAt(url: string, more: string, fields: Record<string, string | undefined>) {
  const right = {
    client_id: ours.client.id,
    response_type: 'code',
    redirect_uri: redirectUri,
    scope: 'mcp:tools:read',
    state: 'state',
    code_challenge: challenge,
    code_challenge_method: 'S256',
    ...fields,
  };
  const given = Object.entries(right).filter(
    (one): one is [string, string] => one[1] !== undefined,
  );
  const query = new URLSearchParams(given).toString();
  const answer = await fetch(`${url}?${query}${more}`, {
    redirect: 'manual',
    headers: { accept: 'application/json' },
  });
  const location = answer.headers.get('location');
  if (location?.startsWith(redirectUri)) {
    return `redirect ${new URL(location).searchParams.get('error')}`;
  }
  return answer.status >= 400 ? 'page' : 'asks the person';
}

const both = async (fields: Record<string, string | undefined>, more = '') => ({
  ours: await authorizeAt(`${ours.base}/oauth/consent`, more, fields),
  theirs: await authorizeAt(`${theirs.base}/auth`, more, fields),
});

describe('authorization endpoint: same answer as oidc-provider', () => {
  test.each<[string, Record<string, string | undefined>, string]>([
    ['everything right', {}, ''],
    ['no client_id', { client_id: undefined }, ''],
    ['an unknown client', { client_id: 'nobody' }, ''],
    ['another redirect_uri', { redirect_uri: 'https://app.example/other' }, ''],
    ['a redirect_uri with a slash more', { redirect_uri: `${redirectUri}/` }, ''],
    ['client_id twice', {}, '&client_id=x'],
    ['no response_type', { response_type: undefined }, ''],
    ['an unknown response_type', { response_type: 'words' }, ''],
    ['no challenge', { code_challenge: undefined, code_challenge_method: undefined }, ''],
    ['plain', { code_challenge_method: 'plain' }, ''],
    ['an unknown method', { code_challenge_method: 's256' }, ''],
    ['a short challenge', { code_challenge: 'short' }, ''],
  ])('%s', async (_, fields, more) => {
    const { ours: we, theirs: they } = await both(fields, more);

    expect(we).toBe(they);
  });
});

describe('authorization endpoint: deliberately different from oidc-provider', () => {
  test.each<[string, Record<string, string | undefined>, string, string, string]>([
    // oidc-provider ignores unknown scopes. RFC 6749 §3.3 allows that if the answer says so; our server narrows nothing silently.
    [
      'an unknown scope',
      { scope: 'mcp:tools:read root' },
      '',
      'redirect invalid_scope',
      'asks the person',
    ],
    // They redirect with the error; two states leave open which to repeat, so we redirect nowhere.
    ['state twice', {}, '&state=x', 'page', 'redirect invalid_request'],
    ['scope twice', {}, '&scope=x', 'page', 'redirect invalid_request'],
    // They take the only registered URI instead; here, a request that two programs may read differently gets a page.
    ['redirect_uri twice', {}, '&redirect_uri=x', 'page', 'redirect invalid_request'],
    // Their code is from an OpenID specification; ours uses only the codes of RFC 6749 §4.1.2.1.
    [
      'an unknown response_mode',
      { response_mode: 'pigeon' },
      '',
      'redirect invalid_request',
      'redirect unsupported_response_mode',
    ],
    // They know the implicit flow, and so answer in the fragment; here there is no such flow.
    [
      'an implicit response_type',
      { response_type: 'id_token' },
      '',
      'redirect unsupported_response_type',
      'redirect null',
    ],
  ])('%s', async (_, fields, more, we, they) => {
    expect(await both(fields, more)).toEqual({ ours: we, theirs: they });
  });
});

/** Status and error of a request to the token endpoint. */
async function tokenAt(url: string, secret: string, fields: Record<string, string | undefined>) {
  const right = { client_id: ours.client.id, client_secret: secret, ...fields };
  const given = Object.entries(right).filter(
    (one): one is [string, string] => one[1] !== undefined,
  );
  const answer = await fetch(url, { method: 'POST', body: new URLSearchParams(given) });
  const { error = 'tokens' }: { error?: string } = JSON.parse(await answer.text());
  return `${answer.status} ${error}`;
}

const bothTokens = async (fields: Record<string, string | undefined>) => ({
  ours: await tokenAt(`${ours.base}/api/oauth/token`, ours.client.secret, fields),
  theirs: await tokenAt(`${theirs.base}/token`, clientSecret, fields),
});
const code = { grant_type: 'authorization_code', code: 'unknown', redirect_uri: redirectUri };
const verifier = { code_verifier: 'v'.repeat(43) };

describe('token endpoint: same answer as oidc-provider', () => {
  test.each<[string, Record<string, string | undefined>]>([
    ['client credentials', { grant_type: 'client_credentials' }],
    ['no grant_type', { grant_type: undefined }],
    ['the password grant', { grant_type: 'password', username: 'a', password: 'b' }],
    ['a wrong secret', { grant_type: 'client_credentials', client_secret: 'wrong' }],
    ['an unknown client', { grant_type: 'client_credentials', client_id: 'nobody' }],
    ['an unknown code', { ...code, ...verifier }],
    ['no code', { ...code, ...verifier, code: undefined }],
    ['an unknown refresh token', { grant_type: 'refresh_token', refresh_token: 'unknown' }],
    ['no refresh token', { grant_type: 'refresh_token' }],
    ['no redirect_uri', { ...code, ...verifier, redirect_uri: undefined }],
  ])('%s', async (_, fields) => {
    const { ours: we, theirs: they } = await bothTokens(fields);

    expect(we).toBe(they);
  });
});

describe('token endpoint: deliberately different from oidc-provider', () => {
  test.each<[string, Record<string, string | undefined>, string, string]>([
    // They ignore the scope; a token that allows less than was requested would surprise its client.
    [
      'an unknown scope',
      { grant_type: 'client_credentials', scope: 'root' },
      '400 invalid_scope',
      '200 tokens',
    ],
  ])('%s', async (_, fields, we, they) => {
    expect(await bothTokens(fields)).toEqual({ ours: we, theirs: they });
  });
});
