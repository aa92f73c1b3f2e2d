import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { fakeClock } from '#support/fake-clock';
import { grantingServer, type Browser, type GrantingServer } from '#support/granting-server';
import { updateSettings } from '#server/db/settings';

const documentUrl = 'https://client.test/app.json';
const site = 'https://client.test/cb';
const loopback = 'http://127.0.0.1:49152/cb';
let server: GrantingServer;
let dana: Browser;
let registered: string;

beforeAll(async () => {
  server = await grantingServer({
    clock: fakeClock(),
    fetchDocument: async () =>
      JSON.stringify({ client_id: documentUrl, client_name: 'Self', redirect_uris: uris }),
    args: ['--dynamic-registration'],
  });
  const answer = await fetch(`${server.base}/api/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      redirect_uris: uris,
      client_name: 'Self',
      token_endpoint_auth_method: 'none',
    }),
  });
  registered = String(Object(await answer.json())['client_id']);
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  dana = await server.browser();
  await updateSettings(server.stores.db, 'org_acme', { openClientsAllowed: true });
});

const uris = [site, 'http://127.0.0.1/cb'];
type Fields = Record<string, string | undefined>;

const wrong: [string, string, Fields][] = [
  ['no resource', 'invalid_target', { resource: undefined }],
  ['a resource elsewhere', 'invalid_target', { resource: 'https://elsewhere.test/mcp' }],
  ['an unknown scope', 'invalid_scope', { scope: 'root' }],
  ['a scope that it may not have', 'invalid_scope', { scope: 'mcp:server:manage' }],
  ['no response_type', 'invalid_request', { response_type: undefined }],
  ['another response_type', 'unsupported_response_type', { response_type: 'token' }],
  ['another response_mode', 'invalid_request', { response_mode: 'fragment' }],
  ['no code_challenge', 'invalid_request', { code_challenge: undefined }],
  ['a plain code_challenge', 'invalid_request', { code_challenge_method: 'plain' }],
  ['prompt=none and an unknown scope', 'invalid_scope', { prompt: 'none', scope: 'root' }],
];

describe.each([
  ['a metadata document, to its site', () => documentUrl, site],
  ['a metadata document, to loopback', () => documentUrl, loopback],
  ['a dynamic registration, to its site', () => registered, site],
  ['a dynamic registration, to loopback', () => registered, loopback],
])('98: no one is redirected to a client of %s without choosing to:', (_, idOf, redirectUri) => {
  const ask = (but: Fields = {}) =>
    server.authorize(dana, {
      client_id: idOf(),
      redirect_uri: redirectUri,
      resource: `${server.base}/mcp/acme/sales`,
      ...but,
    });
  const { host, hostname } = new URL(redirectUri);
  const shown = redirectUri === site ? host : hostname;

  /** The kind of answer, and the target of the only link that leads out of it. */
  async function seen(answer: Response) {
    const page = await answer.text();
    const links = [...page.matchAll(/(?:href|action|content)="(https?:[^"]+)"/g)].map(
      ([, url = '']) => url.replaceAll('&amp;', '&'),
    );
    const back = new URL(links[0] ?? 'none:');
    return {
      isPage: answer.status >= 400 && !answer.headers.has('location'),
      refreshes: answer.headers.has('refresh') || page.includes('http-equiv'),
      namesClient: page.includes('calls itself “Self”') && page.includes(`named ${shown} as`),
      linksOut: links.length,
      back: `${back.origin}${back.pathname}`,
      error: back.searchParams.get('error'),
      issuer: back.searchParams.get('iss'),
    };
  }
  const pageAbout = (error: string) => ({
    isPage: true,
    refreshes: false,
    namesClient: true,
    linksOut: 1,
    back: redirectUri,
    error,
    issuer: server.base,
  });

  test.each(wrong)('%s', async (__, code, but) => {
    expect(await seen(await ask(but))).toEqual(pageAbout(code));
  });

  test('a person who may not use the server', async () => {
    await server.stores.db.deleteFrom('membership').where('person_id', '=', dana.userId).execute();

    expect(await seen(await ask())).toEqual(pageAbout('access_denied'));
  });

  test('an organization that accepts only clients of its administrators', async () => {
    await updateSettings(server.stores.db, 'org_acme', { openClientsAllowed: false });

    expect(await seen(await ask())).toEqual(pageAbout('access_denied'));
  });

  test.each(['allow', 'deny'] as const)(
    'they are redirected once they choose: %s',
    async (decision) => {
      const decided = await server.decide(dana, await (await ask()).text(), decision);

      expect(decided.status).toBe(303);
      expect(decided.headers.get('location')).toContain(redirectUri);
    },
  );
});

test('98: consent: errors for the proxy’s own loopback client are redirected to it', async () => {
  const answer = await server.authorize(dana, {
    client_id: `${server.base}/oauth/clients/latchkey.json`,
    redirect_uri: 'http://127.0.0.1:50123/callback',
  });

  expect(answer.status).toBe(303);
  expect(answer.headers.get('location')).toMatch(
    /^http:\/\/127\.0\.0\.1:50123\/callback\?error=invalid_target/,
  );
});
