import * as oauth from 'oauth4webapi';
import * as openid from 'openid-client';
import { auth } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { allow } from '#support/consenting-person';
import { SdkAssistant } from '#support/sdk-assistant';
import { serverProcess, type ServerProcess } from '#support/server-process';

const email = 'dana@example.com';
const password = 'correct horse battery staple';
const redirectUri = 'http://127.0.0.1:49152/callback';
const scope = 'mcp:tools:read mcp:tools:execute';

let server: ServerProcess;
let client: { client_id: string; client_secret: string };
beforeAll(async () => {
  server = await serverProcess({ args: ['--demo', '--dynamic-registration'] });
  const add = ['user', 'create', email, '--organization', 'demo', '--role', 'member'];
  await server.command(add, `${password}\n`);
  const scopes = scope.split(' ').flatMap((word) => ['--scope', word]);
  const uris = ['--redirect-uri', 'http://127.0.0.1/callback'];
  const made = ['client', 'create', 'demo/library', '--name', 'Independent', '--json'];
  client = JSON.parse(await server.command([...made, ...scopes, ...uris]));
});
afterAll(() => server[Symbol.asyncDispose]());

const danaAllows = (url: URL): Promise<URL> => allow(url, { email, password });

async function callStatus(accessToken: string): Promise<number> {
  const answer = await fetch(`${server.base}/mcp/demo/library`, {
    method: 'POST',
    headers: { authorization: `Bearer ${accessToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  });
  await answer.arrayBuffer();
  return answer.status;
}

test('oauth4webapi: code with PKCE, refresh, introspection and revocation work', async () => {
  const insecure = { [oauth.allowInsecureRequests]: true };
  const issuer = new URL(server.base);
  const found = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...insecure });
  const as = await oauth.processDiscoveryResponse(issuer, found);
  const me: oauth.Client = { client_id: client.client_id };
  const proof = oauth.ClientSecretBasic(client.client_secret);
  const verifier = oauth.generateRandomCodeVerifier();
  const url = new URL(as.authorization_endpoint ?? '');
  url.search = new URLSearchParams({
    client_id: me.client_id,
    redirect_uri: redirectUri,
    response_type: 'code',
    scope,
    state: 'the state',
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  }).toString();

  const callback = oauth.validateAuthResponse(as, me, await danaAllows(url), 'the state');
  const exchange = [as, me, proof, callback, redirectUri, verifier, insecure] as const;
  const answer = await oauth.authorizationCodeGrantRequest(...exchange);
  const first = await oauth.processAuthorizationCodeResponse(as, me, answer);
  const again = [as, me, proof, first.refresh_token ?? '', insecure] as const;
  const refreshed = await oauth.refreshTokenGrantRequest(...again);
  const second = await oauth.processRefreshTokenResponse(as, me, refreshed);
  const { access_token: token, refresh_token: successor = '' } = second;
  const asked = await oauth.introspectionRequest(as, me, proof, token, insecure);
  const told = await oauth.processIntrospectionResponse(as, me, asked);
  const before = await callStatus(token);
  const revoked = await oauth.revocationRequest(as, me, proof, successor, insecure);
  await oauth.processRevocationResponse(revoked);

  expect(first.scope).toBe(scope);
  expect(told).toMatchObject({ active: true, client_id: me.client_id });
  expect([before, await callStatus(token)]).toEqual([200, 401]);
});

test('revocation: an unknown token is answered with an empty JSON object, which simple-oauth2 reads', async () => {
  const answer = await fetch(`${server.base}/api/oauth/revoke`, {
    method: 'POST',
    body: new URLSearchParams({ ...client, token: 'unknown' }),
  });

  expect(answer.status).toBe(200);
  expect(answer.headers.get('content-type')).toMatch(/^application\/json(;|$)/);
  expect(await answer.text()).toBe('{}');
});

test('openid-client: code with PKCE without a secret, refresh and revocation work', async () => {
  const config = await openid.discovery(
    new URL(server.base),
    client.client_id,
    undefined,
    openid.None(),
    { algorithm: 'oauth2', execute: [openid.allowInsecureRequests] },
  );
  const verifier = openid.randomPKCECodeVerifier();
  const state = openid.randomState();
  const url = openid.buildAuthorizationUrl(config, {
    redirect_uri: redirectUri,
    scope,
    state,
    code_challenge: await openid.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    resource: `${server.base}/mcp/demo/library`,
  });

  const checks = { pkceCodeVerifier: verifier, expectedState: state };
  const first = await openid.authorizationCodeGrant(config, await danaAllows(url), checks);
  const second = await openid.refreshTokenGrant(config, first.refresh_token ?? '');
  const before = await callStatus(second.access_token);
  await openid.tokenRevocation(config, second.refresh_token ?? '');

  expect(second.refresh_token).not.toBe(first.refresh_token);
  expect([before, await callStatus(second.access_token)]).toEqual([200, 401]);
});

test('MCP SDK v1: it discovers, registers, authorizes, connects and refreshes', async () => {
  const serverUrl = `${server.base}/mcp/demo/library`;
  const assistant = new SdkAssistant();

  const started = await auth(assistant, { serverUrl });
  const callback = await danaAllows(assistant.sentTo ?? new URL('none:'));
  const authorizationCode = callback.searchParams.get('code') ?? '';
  const finished = await auth(assistant, { serverUrl, authorizationCode });
  const before = assistant.tokens()?.refresh_token;
  const refreshed = await auth(assistant, { serverUrl });
  const connected = new Client({ name: 'sdk', version: '1' });
  await connected.connect(
    new StreamableHTTPClientTransport(new URL(serverUrl), { authProvider: assistant }),
  );
  const { tools } = await connected.listTools();
  await connected.close();

  expect([started, finished, refreshed]).toEqual(['REDIRECT', 'AUTHORIZED', 'AUTHORIZED']);
  expect(assistant.tokens()?.refresh_token).not.toBe(before);
  expect(tools.map(({ name }) => name)).toContain('query');
});
