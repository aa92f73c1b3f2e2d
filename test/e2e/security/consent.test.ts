import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { listGrantsOfPerson } from '#server/db/grants';
import { createClient } from '#server/admin/create-credentials';
import {
  grantingServer,
  hiddenFields,
  type Browser,
  type GrantingServer,
} from '#support/granting-server';
import { newestEvents } from '#support/newest-events';

let server: GrantingServer;
let dana: Browser;
beforeAll(async () => {
  server = await grantingServer();
  dana = await server.browser();
});
afterAll(() => server[Symbol.asyncDispose]());

const locationOf = (answer: Response) => new URL(answer.headers.get('location') ?? 'none:');
const answered = (answer: Response) => Object.fromEntries(locationOf(answer).searchParams);
const events = async () => (await newestEvents(server.stores.db, 10)).map(({ action }) => action);
const count = async (table: 'oauth_grant' | 'authorization_code') => {
  const all = await server.stores.db
    .selectFrom(table)
    .select(({ fn }) => fn.countAll().as('n'))
    .execute();
  return Number(all[0]?.n);
};

/** A client of acme/sales that a redirect to a site belongs to. */
async function siteClient(name: string, redirectUri: string) {
  const chosen = { name, serverId: 'srv_sales', redirectUris: [redirectUri], jwks: undefined };
  const clock = { now: () => Math.floor(Date.now() / 1000) };
  const scopes = ['mcp:tools:read', 'mcp:tools:execute'] as const;
  return createClient({ ...chosen, scopes }, { db: server.stores.db, clock });
}

test('1: authorization request: an unknown client_id gets a page, never a redirect', async () => {
  const answer = await server.authorize(dana, { client_id: 'client_nobody' });

  expect(answer.status).toBe(400);
  expect(answer.headers.has('location')).toBe(false);
});

describe('2: authorization request: a redirect URI that differs gets a page', () => {
  test.each([
    'https://app.example/cb/',
    'https://app.example/cb?x=1',
    'https://app.example/CB',
    'https://app.example/x/..%2Fcb',
    'https://user@app.example/cb',
    'https://app.example/cb#x',
  ])('%s', async (redirectUri) => {
    const answer = await server.authorize(dana, { redirect_uri: redirectUri });

    expect(answer.status).toBe(400);
    expect(answer.headers.has('location')).toBe(false);
  });
});

test.each([
  ['http://127.0.0.1:49152/callback', 200],
  ['http://[::1]:49152/callback', 200],
  ['http://localhost:49152/callback', 400],
  ['http://127.0.0.1:49152/other', 400],
  ['https://app.example:8443/cb', 400],
])('3: loopback redirect URI: only its port may differ: %s', async (redirectUri, status) => {
  expect((await server.authorize(dana, { redirect_uri: redirectUri })).status).toBe(status);
});

test('4: authorization request: an existing grant does not allow an unregistered redirect URI', async () => {
  const { id } = await siteClient('Site', 'https://four.example/cb');
  const right = { client_id: id, redirect_uri: 'https://four.example/cb' };
  await server.code(dana, right);
  const again = await server.authorize(dana, right);
  const evil = await server.authorize(dana, { ...right, redirect_uri: 'https://evil.example/cb' });

  expect(locationOf(again).searchParams.get('code')).toMatch(/^code_/);
  expect(evil.status).toBe(400);
  expect(evil.headers.has('location')).toBe(false);
});

test.each([
  ['5: no code_challenge', { code_challenge: undefined }, 'invalid_request'],
  ['6: code_challenge_method plain', { code_challenge_method: 'plain' }, 'invalid_request'],
  ['6: no code_challenge_method', { code_challenge_method: undefined }, 'invalid_request'],
  ['6: code_challenge_method s256', { code_challenge_method: 's256' }, 'invalid_request'],
  ['7: a code_challenge of 42 characters', { code_challenge: 'x'.repeat(42) }, 'invalid_request'],
  ['9: no response_type', { response_type: undefined }, 'invalid_request'],
  ['9: response_type token', { response_type: 'token' }, 'unsupported_response_type'],
  ['9: response_type id_token', { response_type: 'id_token' }, 'unsupported_response_type'],
  ['9: response_type code token', { response_type: 'code token' }, 'unsupported_response_type'],
  ['11: an unknown scope', { scope: 'mcp:tools:read root' }, 'invalid_scope'],
  ['11: a scope the client may not have', { scope: 'mcp:server:manage' }, 'invalid_scope'],
])('%s is reported to the client by a redirect, with state and iss', async (_, but, error) => {
  const answer = await server.authorize(dana, but);

  expect(answer.status).toBe(303);
  expect(answered(answer)).toMatchObject({ error, state: 'st/ate', iss: server.base });
  expect(answered(answer)).not.toHaveProperty('code');
});

test.each(['client_id', 'redirect_uri', 'scope', 'state', 'code_challenge'])(
  '8: authorization request: %s twice is refused without a redirect',
  async (name) => {
    const answer = await server.authorize(dana, {}, `&${name}=x`);

    expect(answer.status).toBe(400);
    expect(answer.headers.has('location')).toBe(false);
  },
);

test.each([
  'mcp:tools:read,mcp:tools:execute',
  'mcp:tools:execute mcp:tools:read',
  'mcp:tools:read, mcp:tools:execute,,mcp:tools:read',
  'openid profile email offline_access mcp:tools:read mcp:tools:execute',
])('10, 11: scopes: %j grants the same as the client’s own', async (scope) => {
  const { json } = await server.redeem(await server.code(dana, { scope }));

  expect(json['scope']).toBe('mcp:tools:read mcp:tools:execute');
});

test('12: resource: exactly one, the client’s own server', async () => {
  const own = `${server.base}/mcp/acme/sales`;
  const other = `${server.base}/mcp/acme/support`;
  const wrong = await server.authorize(dana, { resource: other });
  const two = await server.authorize(
    dana,
    { resource: own },
    `&resource=${encodeURIComponent(other)}`,
  );

  expect(answered(wrong)).toMatchObject({ error: 'invalid_target' });
  expect(answered(two)).toMatchObject({ error: 'invalid_target' });
  expect((await server.authorize(dana, { resource: own })).status).toBe(200);
});

test('13: authorization response: success and denial carry the issuer of the metadata', async () => {
  const metadata = await fetch(`${server.base}/.well-known/oauth-authorization-server`);
  const document: Record<string, unknown> = JSON.parse(await metadata.text());
  const { issuer, ...rest } = document;
  const page = await (await server.authorize(dana)).text();
  const allowed = await server.decide(dana, page, 'allow');

  expect(rest['authorization_response_iss_parameter_supported']).toBe(true);
  expect(answered(allowed)).toMatchObject({ iss: issuer, code: expect.stringMatching(/^code_/) });
});

test('14: state: it comes back unchanged, and is refused above 4 KB', async () => {
  const state = `ü&+= %00"<>🔑${'x'.repeat(2048)}`;
  const page = await (await server.authorize(dana, { state })).text();
  const allowed = await server.decide(dana, page, 'allow');

  expect(answered(allowed)['state']).toBe(state);
  expect((await server.authorize(dana, { state: 'x'.repeat(4097) })).status).toBe(400);
});

test('15: consent page: it cannot be framed, and its form may go to the redirect URI only', async () => {
  const { headers } = await server.authorize(dana, { redirect_uri: 'https://app.example/cb' });
  const policy = headers.get('content-security-policy');

  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).toContain("form-action 'self' https://app.example;");
  expect(policy).not.toContain('upgrade-insecure-requests');
  expect(headers.get('x-frame-options')).toBe('DENY');
  expect(headers.get('referrer-policy')).toBe('same-origin');
  expect(headers.get('cache-control')).toBe('no-store');
  expect(headers.has('strict-transport-security')).toBe(false);
});

test.each(['https://e.test,evil/cb', "https://e.test;script-src'/cb", 'https://[2001:db8::1]/cb'])(
  '15: consent page: for a stored redirect URI %s, the policy names its scheme',
  async (redirectUri) => {
    const { id } = await siteClient('Earlier', redirectUri);
    const answer = await server.authorize(dana, { client_id: id, redirect_uri: redirectUri });
    const policy = answer.headers.get('content-security-policy');
    const allowed = await server.decide(dana, await answer.text(), 'allow');

    expect(answer.status).toBe(200);
    expect(policy).toContain("form-action 'self' https:;");
    expect(policy).not.toContain(new URL(redirectUri).host);
    expect(allowed.headers.get('location')).toMatch(/[?]code=code_/);
  },
);

test('16: authorization endpoint: pages of another origin cannot call it', async () => {
  const { headers } = await fetch(`${server.base}/oauth/consent`, {
    method: 'OPTIONS',
    headers: { origin: 'https://evil.example', 'access-control-request-method': 'GET' },
  });

  expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
});

describe('17: consent: a decision is refused, gives no code and is audited', () => {
  const post = (browser: Browser, fields: Record<string, string>) =>
    fetch(`${server.base}/oauth/consent`, {
      method: 'POST',
      headers: { cookie: browser.cookie, origin: server.base },
      body: new URLSearchParams({ ...fields, decision: 'allow' }),
      redirect: 'manual',
    });
  const shown = async () =>
    hiddenFields(await (await server.authorize(dana)).text(), '/oauth/consent');

  test('without the token', async () => {
    const { request = '' } = await shown();
    const before = await count('authorization_code');

    expect((await post(dana, { request })).status).toBe(403);
    expect(await count('authorization_code')).toBe(before);
    expect(await events()).toContain('forged-form');
  });

  test('in another session', async () => {
    const eve = await server.browser();
    const hers = hiddenFields(await (await server.authorize(eve)).text(), '/oauth/consent');
    const { request = '' } = await shown();
    const before = await count('authorization_code');

    expect((await post(eve, { ...hers, request })).status).toBe(403);
    expect(await count('authorization_code')).toBe(before);
    expect(await events()).toContain('consent.decide');
  });

  test('a second time', async () => {
    const fields = await shown();
    const first = await post(dana, fields);
    const before = await count('authorization_code');

    expect(first.status).toBe(303);
    expect((await post(dana, fields)).status).toBe(403);
    expect(await count('authorization_code')).toBe(before);
  });
});

test('18: consent: the decision is answered with 303', async () => {
  const page = await (await server.authorize(dana)).text();

  expect((await server.decide(dana, page, 'allow')).status).toBe(303);
});

test('19: consent: a denial is sent back as access_denied, and nothing is granted', async () => {
  const page = await (await server.authorize(dana)).text();
  const before = await count('oauth_grant');
  const answer = await server.decide(dana, page, 'deny');

  expect(answered(answer)).toEqual({
    error: 'access_denied',
    error_description: expect.any(String),
    state: 'st/ate',
    iss: server.base,
  });
  expect(await count('oauth_grant')).toBe(before);
  expect(await events()).toContain('consent.deny');
});

describe('20: remembered consent', () => {
  test('it is for one client', async () => {
    const redirectUri = 'https://twenty.example/cb';
    const one = await siteClient('One', redirectUri);
    const two = await siteClient('Two', redirectUri);
    await server.code(dana, { client_id: one.id, redirect_uri: redirectUri });

    const again = await server.authorize(dana, { client_id: one.id, redirect_uri: redirectUri });
    const other = await server.authorize(dana, { client_id: two.id, redirect_uri: redirectUri });

    expect(again.status).toBe(303);
    expect(other.status).toBe(200);
  });

  test('it covers no wider scopes', async () => {
    const redirectUri = 'https://wider.example/cb';
    const { id } = await siteClient('Wider', redirectUri);
    await server.code(dana, { client_id: id, redirect_uri: redirectUri, scope: 'mcp:tools:read' });

    const wider = await server.authorize(dana, { client_id: id, redirect_uri: redirectUri });

    expect(wider.status).toBe(200);
  });

  test('it never skips the page for a loopback redirect', async () => {
    await server.code(dana);

    expect((await server.authorize(dana)).status).toBe(200);
  });

  test('it is for one person, and ends when it is withdrawn', async () => {
    const fay = await server.browser();
    const redirectUri = 'https://withdrawn.example/cb';
    const { id } = await siteClient('Withdrawn', redirectUri);
    const but = { client_id: id, redirect_uri: redirectUri };
    const { accessToken } = await (async () => {
      const { json } = await server.redeem(await server.code(fay, but), but);
      return { accessToken: String(json['access_token']) };
    })();
    const eve = await server.browser();
    const account = await fetch(`${server.base}/account`, { headers: { cookie: fay.cookie } });
    const page = await account.text();
    const [grant] = await listGrantsOfPerson(server.stores.db, fay.userId, 0);
    const action = `/account/grants/${grant?.id}/withdraw`;

    expect((await server.authorize(eve, but)).status).toBe(200);
    expect(await server.call(accessToken)).toBe(200);

    const withdrawn = await fetch(server.base + action, {
      method: 'POST',
      headers: { cookie: fay.cookie, origin: server.base },
      body: new URLSearchParams(hiddenFields(page, action)),
      redirect: 'manual',
    });

    expect(withdrawn.status).toBe(303);
    expect(await server.call(accessToken)).toBe(401);
    expect((await server.authorize(fay, but)).status).toBe(200);
    expect(await events()).toContain('grant.withdraw');
  });
});

test('21: consent page: a hostile client name is escaped, cannot reorder text, and is shortened', async () => {
  const name = `<img src=x onerror=alert(1)>\u202e${'A'.repeat(10_000)}`;
  const { id } = await siteClient(name, 'https://hostile.example/cb');
  const answer = await server.authorize(dana, {
    client_id: id,
    redirect_uri: 'https://hostile.example/cb',
  });
  const page = await answer.text();

  expect(page).toContain('&lt;img src=x');
  expect(page).not.toContain('<img src=x');
  expect(page).not.toContain('\u202e');
  expect(page).not.toContain('A'.repeat(200));
  expect(page).toContain('hostile.example');
  expect(page).toContain('<bdi>acme</bdi> / <bdi>sales</bdi>');
  expect(page).toContain('Use those tools on your behalf');
});

test('21: consent page: it warns about a loopback redirect', async () => {
  expect(await (await server.authorize(dana)).text()).toContain('A program on this computer');
});

test('authorization request: a person who is signed out signs in first and then returns', async () => {
  const answer = await server.authorize(undefined);

  expect(answer.status).toBe(303);
  expect(answer.headers.get('location')).toMatch(/^\/sign-in\?next=%2Foauth%2Fconsent%3Fclient_id/);
});

test('authorization request: for a person outside the organization the client gets an error', async () => {
  const eve = await server.browser();
  await server.stores.db.deleteFrom('membership').where('person_id', '=', eve.userId).execute();
  const answer = await server.authorize(eve);

  expect(answer.status).toBe(303);
  expect(answered(answer)).toMatchObject({ error: 'access_denied', iss: server.base });
  expect(answered(answer)).not.toHaveProperty('code');
});
