import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { request } from 'node:http';

import { exportJWK, SignJWT, UnsecuredJWT } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';

import { listAuditEvents } from '#server/db/audit';
import { createClient } from '#server/admin/create-credentials';
import { fakeClock } from '#support/fake-clock';
import { runProgram } from '#support/processes';
import {
  grantingServer,
  launcher,
  type Browser,
  type GrantingServer,
} from '#support/granting-server';
import { patient } from '#support/patient';
import type { JsonObject } from '#support/running-server';

let server: GrantingServer;
let dana: Browser;
beforeAll(async () => {
  server = await grantingServer({ args: ['--dynamic-registration'] });
  dana = await server.browser();
});
afterAll(() => server[Symbol.asyncDispose]());

const register = async (metadata: object, headers: Record<string, string> = {}) => {
  const answer = await fetch(`${server.base}/api/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(metadata),
  });
  const json: Record<string, unknown> = JSON.parse(await answer.text());
  return { status: answer.status, json };
};

describe('23: dynamic registration refuses', () => {
  test.each([
    'javascript:alert(1)',
    'data:text/html,x',
    'file:///etc/passwd',
    'vbscript:x',
    'https://app.example/$(id)',
    'https://app.example/a\r\nb',
    'http://app.example/cb',
    'cursor://callback',
    'https://*.example/cb',
    'https://app.example/cb#x',
    'https://e.test,evil/cb',
    "https://e.test;script-src'/cb",
  ])('the redirect URI %j', async (uri) => {
    expect(await register({ redirect_uris: [uri] })).toMatchObject({
      status: 400,
      json: { error: 'invalid_redirect_uri' },
    });
  });

  test.each(['client_uri', 'logo_uri', 'tos_uri', 'policy_uri'])('script in %s', async (member) => {
    const answer = await register({
      redirect_uris: ['https://app.example/cb'],
      [member]: 'javascript:alert(1)',
    });

    expect(answer).toMatchObject({ status: 400, json: { error: 'invalid_client_metadata' } });
  });
});

test('dynamic registration: the client belongs to no server and has to name a resource', async () => {
  const { status, json } = await register({
    redirect_uris: ['http://127.0.0.1/callback'],
    client_name: 'Registered',
    token_endpoint_auth_method: 'none',
  });
  const but = { client_id: String(json['client_id']) };
  const without = await server.authorize(dana, but);
  const resource = `${server.base}/mcp/acme/support`;
  const { json: tokens } = await server.redeem(await server.code(dana, { ...but, resource }), but);
  const [, payload = ''] = String(tokens['access_token']).split('.');

  expect(status).toBe(201);
  expect(json).not.toHaveProperty('client_secret');
  expect(without.status).toBe(400);
  expect(await without.text()).toContain('error=invalid_target');
  expect(Buffer.from(payload, 'base64url').toString()).toContain(`"aud":"${resource}"`);
});

test('dynamic registration: the client gets no token by client credentials', async () => {
  const { json } = await register({ redirect_uris: ['https://app.example/cb'] });

  const answer = await server.post('/api/oauth/token', {
    grant_type: 'client_credentials',
    client_id: String(json['client_id']),
    client_secret: String(json['client_secret']),
  });

  expect(answer).toMatchObject({ status: 400, json: { error: 'unauthorized_client' } });
});

test('dynamic registration: refused unless it is enabled', async () => {
  await using closed = await grantingServer();
  const { status } = await fetch(`${closed.base}/api/oauth/register`, { method: 'POST' });
  const metadata = await fetch(`${closed.base}/.well-known/oauth-authorization-server`);

  expect(status).toBe(404);
  expect(await metadata.text()).not.toContain('registration_endpoint');
});

describe('43: private_key_jwt', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  let id: string;
  let secret: string;
  beforeAll(async () => {
    const jwks = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'k' }] });
    const clock = { now: () => Math.floor(Date.now() / 1000) };
    const chosen = { name: 'Keyed', serverId: 'srv_sales', jwks };
    const made = await createClient(
      { ...chosen, scopes: ['mcp:tools:read'], redirectUris: ['http://127.0.0.1/callback'] },
      { db: server.stores.db, clock },
    );
    ({ id, secret } = made);
  });
  const sign = (but: Record<string, unknown> = {}, life = '60s') =>
    new SignJWT({ jti: randomUUID(), iss: id, sub: id, aud: server.base, ...but })
      .setProtectedHeader({ alg: 'ES256', kid: 'k' })
      .setIssuedAt()
      .setExpirationTime(life)
      .sign(privateKey);
  const bring = (assertion: string, but: Record<string, string> = {}) =>
    server.post('/api/oauth/token', {
      grant_type: 'client_credentials',
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion: assertion,
      ...but,
    });
  const invalidClient = { status: 401, json: { error: 'invalid_client' } };

  test('a valid assertion is accepted once', async () => {
    const assertion = await sign();

    expect((await bring(assertion)).status).toBe(200);
    expect(await bring(assertion)).toMatchObject(invalidClient);
  });

  test.each([
    ['another audience', { aud: 'https://other.example' }],
    ['another issuer', { iss: 'client_other' }],
    ['another subject', { sub: 'client_other' }],
    ['no jti', { jti: undefined }],
    ['several audiences', { aud: ['https://other.example', 'x'] }],
  ])('an assertion with %s is refused', async (_, but) => {
    expect(await bring(await sign(but))).toMatchObject(invalidClient);
  });

  test('an assertion with a lifetime over five minutes is refused', async () => {
    expect(await bring(await sign({}, '10 minutes'))).toMatchObject(invalidClient);
  });

  test('an assertion that is unsigned, or signed with public data, is refused', async () => {
    const claims = { jti: randomUUID(), iss: id, sub: id, aud: server.base };
    const unsigned = new UnsecuredJWT(claims).setExpirationTime('60s').encode();
    const shared = await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256' })
      .setExpirationTime('60s')
      .sign(Buffer.from(JSON.stringify(await exportJWK(publicKey))));

    expect(await bring(unsigned)).toMatchObject(invalidClient);
    expect(await bring(shared)).toMatchObject(invalidClient);
  });

  test('a secret of such a client is worth nothing', async () => {
    const body = { grant_type: 'client_credentials', client_id: id, client_secret: secret };
    const basic = `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;

    expect(await server.post('/api/oauth/token', body)).toMatchObject(invalidClient);
    expect(
      await server.post(
        '/api/oauth/token',
        { grant_type: 'client_credentials' },
        { authorization: basic },
      ),
    ).toMatchObject(invalidClient);
  });

  test('a code of such a client is redeemed only with an assertion', async () => {
    const but = { client_id: id, scope: 'mcp:tools:read' };
    const issued = await server.code(dana, but);
    const bare = await server.redeem(issued, { client_id: id });
    const proved = await server.redeem(issued, {
      client_id: id,
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion: await sign(),
    });

    expect(bare).toMatchObject(invalidClient);
    expect(proved.status).toBe(200);
  });
});

describe('26: a refused client', () => {
  afterEach(() => void vi.useRealTimers());

  test('is recorded after the answer, whether it exists or not', async () => {
    await using own = await grantingServer({ clock: fakeClock() });
    const { id } = own.client;
    const refusals = () =>
      listAuditEvents(own.stores.db, { organization: undefined, outcome: 'refused', limit: 9 });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const statuses: number[] = [];
    for (const claimed of [id, id.replace('_', '%5F'), 'client_unknown']) {
      const credentials = Buffer.from(`${claimed}:secret_${'0'.repeat(36)}`).toString('base64');
      const headers = { authorization: `Basic ${credentials}` };
      const fields = { grant_type: 'client_credentials' };
      statuses.push((await own.post('/api/oauth/token', fields, headers)).status);
    }
    const atOnce = await refusals();
    await vi.advanceTimersByTimeAsync(1000);
    const action = 'token.invalid-client';
    const recorded = await refusals();

    expect(statuses).toEqual([401, 401, 401]);
    expect(atOnce).toEqual([]);
    expect(recorded).toHaveLength(2);
    expect(recorded).toContainEqual(
      expect.objectContaining({ action, organization: 'acme', target: `client:${id}` }),
    );
    expect(recorded).toContainEqual(
      expect.objectContaining({ action, organization: undefined, target: undefined }),
    );
  });
});

const encoded = (text: string) => Buffer.from(text).toString('hex').replaceAll(/../g, '%$&');

test.each<[string, (id: string, n: number) => string]>([
  ['as it is', (id) => id],
  // Each time with one more character encoded.
  ['percent-encoded differently each time', (id, n) => encoded(id.slice(0, n)) + id.slice(n)],
])(
  '44: lockout: after twenty wrong secrets an address waits, while a right one works from another, with the id %s',
  async (_, spelled) => {
    let asked = 0;
    await using own = await grantingServer();
    const ask = (secret: string, localAddress: string) =>
      new Promise<{ status: number; retryAfter: string | undefined }>((resolve, reject) => {
        const outgoing = request(`${own.base}/api/oauth/token`, {
          method: 'POST',
          localAddress,
          agent: false,
          auth: `${spelled(own.client.id, asked)}:${secret}`,
          headers: { 'content-type': 'application/x-www-form-urlencoded' },
        });
        asked += 1;
        outgoing.on('error', reject).on('response', (answer) => {
          answer.resume();
          const { statusCode: status = 0, headers } = answer;
          answer.on('end', () => resolve({ status, retryAfter: headers['retry-after'] }));
        });
        outgoing.end('grant_type=client_credentials');
      });
    const wrong = `secret_${'0'.repeat(36)}`;
    for (let n = 0; n < 20; n += 1) expect((await ask(wrong, '127.0.0.1')).status).toBe(401);
    const blocked = await ask(own.client.secret, '127.0.0.1');

    expect(blocked.status).toBe(429);
    expect(Number(blocked.retryAfter)).toBeGreaterThan(0);
    expect((await ask(wrong, '127.0.0.2')).status).toBe(429);
    expect((await ask(own.client.secret, '127.0.0.3')).status).toBe(200);
  },
);

test('51: authorization server metadata: it names every endpoint and method that exists', async () => {
  const answer = await fetch(`${server.base}/.well-known/oauth-authorization-server`);

  expect(answer.headers.get('access-control-allow-origin')).toBe('*');
  expect(JSON.parse(await answer.text())).toMatchObject({
    issuer: server.base,
    authorization_endpoint: `${server.base}/oauth/consent`,
    token_endpoint: `${server.base}/api/oauth/token`,
    introspection_endpoint: `${server.base}/api/oauth/introspect`,
    userinfo_endpoint: `${server.base}/api/oauth/userinfo`,
    registration_endpoint: `${server.base}/api/oauth/register`,
    response_types_supported: ['code'],
    grant_types_supported: [
      'authorization_code',
      'refresh_token',
      'client_credentials',
      'urn:ietf:params:oauth:grant-type:jwt-bearer',
    ],
    authorization_grant_profiles_supported: ['urn:ietf:params:oauth:grant-profile:id-jag'],
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: expect.arrayContaining(['none', 'private_key_jwt']),
    client_id_metadata_document_supported: true,
    authorization_response_iss_parameter_supported: true,
  });
});

test('52: signing key rotation: old tokens stay valid, new ones name the new key, and both are published', async () => {
  const { accessToken, refreshToken } = await server.signIn(dana);
  const rotated = await runProgram(process.execPath, {
    args: [launcher, 'signing-key', 'rotate', '--json', '--data-dir', server.dataDir],
  });
  const { kid }: { kid: string } = JSON.parse(rotated.stdout);
  const published = async () => (await fetch(`${server.base}/.well-known/jwks.json`)).text();
  await vi.waitFor(async () => expect(await published()).toContain(kid), patient);
  const kidOf = (token: string) => {
    const header: { kid: string } = JSON.parse(
      Buffer.from(token.split('.')[0] ?? '', 'base64url').toString(),
    );
    return header.kid;
  };
  let json: JsonObject = { refresh_token: refreshToken };
  await vi.waitFor(
    async () => {
      ({ json } = await server.refresh(String(json['refresh_token'])));
      expect(kidOf(String(json['access_token']))).toBe(kid);
    },
    { ...patient, interval: 500 },
  );
  const document: { keys: Record<string, string>[] } = JSON.parse(await published());

  expect(await server.call(accessToken)).toBe(200);
  expect(await server.call(String(json['access_token']))).toBe(200);
  expect(document.keys.map((key) => key['kid'])).toEqual([kid, kidOf(accessToken)]);
  expect(document.keys.every((key) => !('d' in key))).toBe(true);
});
