import { describe, expect, test } from 'vitest';

import type { OAuthClient } from '#server/db/clients';
import { allScopes, ordinaryScopes } from '#server/model/scopes';
import { authorizationRequest } from '#server/oauth/authorization-request';
import { OAuthError } from '#server/oauth/oauth-error';
import { pkcePair } from '#support/authorization-server';

const base = 'https://latchkey.example';
const { challenge } = pkcePair();
const client: OAuthClient = {
  id: 'client_a',
  name: 'Claude',
  serverId: 'srv_sales',
  serverPath: 'acme/sales',
  organization: 'acme',
  scopes: [...ordinaryScopes],
  tools: { type: 'all' },
  redirectUris: ['https://app.example/cb', 'http://127.0.0.1/cb', 'http://[::1]/cb'],
  jwks: undefined,
  authenticationRequired: false,
  isLatchkeyProxy: false,
  isSuspended: false,
  createdAt: 0,
  lastUsedAt: undefined,
  revokedAt: undefined,
};
const proxy = {
  ...client,
  id: `${base}/oauth/clients/latchkey.json`,
  serverId: undefined,
  serverPath: undefined,
  organization: undefined,
};
const wandering = { ...client, id: 'client_w', serverId: undefined, serverPath: undefined };

type Parameter = readonly [string, string];
const right: readonly Parameter[] = [
  ['client_id', client.id],
  ['response_type', 'code'],
  ['redirect_uri', 'https://app.example/cb'],
  ['scope', 'mcp:tools:read'],
  ['state', 's t+&=ü'],
  ['code_challenge', challenge],
  ['code_challenge_method', 'S256'],
];

/** Sends a valid request except for the parameters in `but`; `undefined` omits a parameter. */
function ask(but: Record<string, string | undefined> = {}, more: readonly Parameter[] = []) {
  const kept = right.filter(([name]) => !(name in but));
  const changed = Object.entries(but).filter(
    (one): one is [string, string] => one[1] !== undefined,
  );
  const query = new URLSearchParams(
    [...kept, ...changed, ...more].map(([k, v]) => [k, v] as [string, string]),
  );
  return askRaw(query.toString());
}

function askRaw(
  query: string,
  { userId }: { userId: string | undefined } = { userId: 'user_dana' },
) {
  return authorizationRequest(
    query,
    { userId },
    {
      base,
      resolveClient: async (id) => {
        const found = [client, wandering, proxy].find((candidate) => candidate.id === id);
        if (found) return found;
        throw new OAuthError('invalid_client', 'unknown');
      },
    },
  );
}

async function redirected(asked: ReturnType<typeof ask>) {
  const outcome = await asked;
  if (outcome.outcome !== 'redirect') throw new Error(outcome.outcome);
  const { searchParams } = new URL(outcome.location);
  return Object.fromEntries(searchParams);
}

test('a valid request is accepted', async () => {
  expect(await ask()).toEqual({
    outcome: 'request',
    request: {
      clientId: client.id,
      clientName: 'Claude',
      isSelfRegistered: false,
      serverPath: 'acme/sales',
      scopes: ['mcp:tools:read'],
      redirectUri: 'https://app.example/cb',
      state: 's t+&=ü',
      codeChallenge: challenge,
    },
  });
});

test.each([
  ['Claude Desktop', 'Claude Desktop'],
  ['  Cursor ', 'Cursor'],
  ['x'.repeat(101), undefined],
  [' ', undefined],
])('the assistant “%s” is accepted only from our own proxy', async (assistant, taken) => {
  const place = { resource: `${base}/mcp/acme/sales`, redirect_uri: 'http://127.0.0.1:1/cb' };
  const ours = await ask({ client_id: proxy.id, assistant, ...place });
  const other = await ask({ client_id: wandering.id, assistant, ...place });

  expect(ours).toMatchObject({ outcome: 'request', request: { assistant: taken } });
  expect(other).toMatchObject({ outcome: 'request', request: { assistant: undefined } });
});

describe('the error is not redirected', () => {
  test.each<[string, Record<string, string | undefined>, Parameter[]]>([
    ['without client_id', { client_id: undefined }, []],
    ['for an unknown client', { client_id: 'client_nobody' }, []],
    ['without redirect_uri', { redirect_uri: undefined }, []],
    ['to a trailing slash', { redirect_uri: 'https://app.example/cb/' }, []],
    ['to an extra query', { redirect_uri: 'https://app.example/cb?x=1' }, []],
    ['to a path in another case', { redirect_uri: 'https://app.example/CB' }, []],
    ['to a path that climbs', { redirect_uri: 'https://app.example/x/..%2Fcb' }, []],
    ['to another user', { redirect_uri: 'https://x@app.example/cb' }, []],
    ['to a fragment', { redirect_uri: 'https://app.example/cb#x' }, []],
    ['to a port of an https site', { redirect_uri: 'https://app.example:444/cb' }, []],
    ['to another path on loopback', { redirect_uri: 'http://127.0.0.1:5000/other' }, []],
    ['to another loopback host', { redirect_uri: 'http://localhost:5000/cb' }, []],
    ['to a port that is none', { redirect_uri: 'http://127.0.0.1:99999/cb' }, []],
    ['with two states', {}, [['state', 'again']]],
    ['with two clients', {}, [['client_id', client.id]]],
    ['with a state above 4 KB', { state: 'x'.repeat(4097) }, []],
  ])('%s', async (_, but, more) => {
    expect(await ask(but, more)).toMatchObject({ outcome: 'page' });
  });

  test('where the query is not percent-encoded UTF-8', async () => {
    expect(await askRaw('client_id=%ff')).toMatchObject({ outcome: 'page' });
  });
});

test.each(['http://127.0.0.1:49152/cb', 'http://[::1]:1/cb', 'http://127.0.0.1/cb'])(
  '%s matches the registered one with any port',
  async (redirectUri) => {
    expect(await ask({ redirect_uri: redirectUri })).toMatchObject({
      request: { redirectUri },
    });
  },
);

describe('the error is redirected to the client', () => {
  test.each<[string, string, Record<string, string | undefined>, Parameter[]]>([
    ['invalid_request', 'no response_type', { response_type: undefined }, []],
    ['unsupported_response_type', 'token', { response_type: 'token' }, []],
    ['unsupported_response_type', 'code token', { response_type: 'code token' }, []],
    ['invalid_request', 'no challenge', { code_challenge: undefined }, []],
    ['invalid_request', 'no method', { code_challenge_method: undefined }, []],
    ['invalid_request', 'plain', { code_challenge_method: 'plain' }, []],
    ['invalid_request', 's256', { code_challenge_method: 's256' }, []],
    ['invalid_request', 'a short challenge', { code_challenge: challenge.slice(1) }, []],
    ['invalid_request', 'a fragment answer', { response_mode: 'fragment' }, []],
    ['invalid_scope', 'an unknown scope', { scope: 'mcp:tools:read admin' }, []],
    ['invalid_scope', 'a scope it may not have', { scope: 'mcp:server:manage' }, []],
    ['invalid_target', 'another server', { resource: `${base}/mcp/acme/support` }, []],
    [
      'invalid_target',
      'two resources',
      { resource: `${base}/mcp/acme/sales` },
      [['resource', `${base}/mcp/acme/support`]],
    ],
  ])('%s: %s', async (error, _, but, more) => {
    expect(await redirected(ask(but, more))).toMatchObject({
      error,
      state: 's t+&=ü',
      iss: base,
    });
  });
});

test('an error of a client that anyone can register is not redirected', async () => {
  const outcome = await ask({ client_id: 'client_w' });

  expect(outcome).toMatchObject({
    outcome: 'refused',
    refusal: { code: 'invalid_target' },
    target: { clientId: 'client_w', isSelfRegistered: true },
    location: expect.stringMatching(/^https:\/\/app\.example\/cb\?error=invalid_target/),
  });
});

test.each([
  'mcp:tools:read,mcp:tools:execute',
  'mcp:tools:read mcp:tools:execute',
  'mcp:tools:read, mcp:tools:execute,,mcp:tools:read',
  'openid mcp:tools:read offline_access mcp:tools:execute',
])('scopes may be given as %s', async (scope) => {
  expect(await ask({ scope })).toMatchObject({
    request: { scopes: ['mcp:tools:read', 'mcp:tools:execute'] },
  });
});

test('scopes that a self-registered client can never have are dropped, unless there are no others', async () => {
  const everything = allScopes.join(' ');
  const of = { client_id: 'client_w' };
  const resource: readonly Parameter[] = [['resource', `${base}/mcp/acme/sales`]];

  expect(await ask({ ...of, scope: everything }, resource)).toMatchObject({
    request: { scopes: ordinaryScopes },
  });
  for (const scope of ['mcp:server:manage', 'mcp:tools:read mcp:unknown']) {
    expect(await ask({ ...of, scope }, resource)).toMatchObject({
      outcome: 'refused',
      refusal: { code: 'invalid_scope' },
    });
  }
  expect(await redirected(ask({ scope: everything }))).toMatchObject({ error: 'invalid_scope' });
});

test.each([undefined, 'openid', ''])(
  'scope %j means all that the client may have',
  async (scope) => {
    expect(await ask({ scope })).toMatchObject({ request: { scopes: ordinaryScopes } });
  },
);

test('a client that anyone can register is answered only after a sign-in', async () => {
  const query = new URLSearchParams({
    client_id: 'client_w',
    redirect_uri: 'https://app.example/cb',
  });

  expect(await askRaw(query.toString(), { userId: undefined })).toEqual({ outcome: 'sign-in' });
});
