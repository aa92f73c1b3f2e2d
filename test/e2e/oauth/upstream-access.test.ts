import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { createRemoteJWKSet, decodeJwt, jwtVerify } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';

import { listAuditEvents } from '#server/db/audit';
import { findOrganization } from '#server/db/organizations';
import { updateServer } from '#server/db/servers';
import { createKey } from '#server/admin/create-credentials';
import { ordinaryScopes } from '#server/model/scopes';
import { grantingServer, type Browser, type GrantingServer } from '#support/granting-server';
import { mcpCall, modern, rpc } from '#support/mcp-call';
import { runCommandInProcess } from '#support/run-command-in-process';
import { tokenUpstream, type TokenUpstream } from '#support/token-upstream';
import { insertGroup, insertGroupMember } from '#server/db/groups';
import { setServerAccess } from '#server/db/server-access';
import { removeMember } from '#server/db/people';
import { patient } from '#support/patient';

const path = '/dashboard/acme/servers/sales/account';
let server: GrantingServer;
let upstream: TokenUpstream;
let endpoint: string;

beforeAll(async () => {
  server = await grantingServer({ args: ['--outbound-host', '127.0.0.1'] });
  endpoint = `${server.base}/mcp/acme/sales`;
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  upstream = await tokenUpstream({ redirectUris: [`${server.base}${path}/callback`] });
  await pointAt(upstream.url);
});
afterEach(() => upstream[Symbol.asyncDispose]());

const pointAt = (url: string) =>
  updateServer(server.stores.db, 'srv_sales', {
    upstream: { kind: 'http', url, publicOnly: true },
  });

/** Runs a command beside the server; what its `--json` printed. */
async function command(...words: string[]): Promise<Record<string, unknown>> {
  const printed = await runCommandInProcess([...words, '--json', '--data-dir', server.dataDir]);
  return Object.fromEntries(Object.entries(Object(JSON.parse(printed))));
}

async function setAccess(...words: string[]) {
  const file = join(server.dataDir, 'upstream-secret');
  writeFileSync(file, `${upstream.clientSecret}\n`, { mode: 0o600 });
  const client = ['--client-id', upstream.clientId, '--client-secret-file', file];
  // The operator vouches for servers inside the network by naming them.
  const issuer = ['--issuer', upstream.issuer];
  const inside = ['--outbound-host', new URL(upstream.url).host];
  return command('server', 'set-access', 'acme/sales', ...client, ...issuer, ...inside, ...words);
}

/** Sets the same client with other scopes, and makes a call that requests them. */
async function askedAnew() {
  await setAccess('--client-credentials', '--scope', 'write');
  await whoami({ key: await keyOf() });
}

const keyOf = async () => {
  const owner = { type: 'server', serverId: 'srv_sales' } as const;
  const made = { name: 'key', scopes: [...ordinaryScopes], expiresAt: undefined, owner };
  const clock = { now: () => Math.floor(Date.now() / 1000) };
  return (await createKey(made, { db: server.stores.db, clock })).key;
};
const tool = (name: string, id: number | string = 1) =>
  rpc('tools/call', { name, arguments: {} }, id);
const whoami = (credential: { key?: string; token?: string }, name = 'whoami') =>
  mcpCall(endpoint, { ...credential, body: tool(name) });
const tokenOf = async (browser: Browser) => (await server.signIn(browser)).accessToken;

type Sent = { method?: string; body?: URLSearchParams; headers?: Record<string, string> };
const page = async (browser: Browser, where = path, init: Sent = {}) =>
  fetch(server.base + where, {
    redirect: 'manual',
    ...init,
    headers: { cookie: browser.cookie, ...init.headers },
  });
const press = async (browser: Browser, where: string) => {
  const html = await (await page(browser, where)).text();
  const token = /name="csrf_token" value="([^"]+)"/.exec(html)?.[1] ?? '';
  const body = new URLSearchParams({ csrf_token: token });
  return page(browser, where, { method: 'POST', headers: { origin: server.base }, body });
};
/** Where the person is sent to consent. */
const begun = async (browser: Browser) => {
  const html = await (await press(browser, path)).text();
  return (/url=([^"]+)"/.exec(html)?.[1] ?? '').replaceAll('&amp;', '&');
};
/** Consents as `login`, and comes back. Returns where that leads. */
const connect = async (browser: Browser, login: string) => {
  const back = await upstream.consent(await begun(browser), login);
  return (await page(browser, back.pathname + back.search)).headers.get('location');
};

/** The tokens whose revocation was requested at the authorization server. */
const revocations = () =>
  upstream.asked
    .filter((one) => one.path.includes('revocation'))
    .map(({ body }) => new URLSearchParams(body).get('token'));
/** Waits until the audit log says that the authorization server was told to revoke a target's tokens, or was not reached. */
const audited = (target: string, outcome: 'done' | 'refused') =>
  vi.waitFor(async () => {
    const asked = { organization: 'acme', action: 'upstream-token.revoke', target, limit: 100 };
    const [newest] = await listAuditEvents(server.stores.db, asked);
    expect(newest).toMatchObject({ actor: 'system', outcome });
  }, patient);

describe('upstream access with one token for all callers', () => {
  test('the operator sets it up by discovery, and all callers use one token', async () => {
    const set = await setAccess('--client-credentials');
    const key = await keyOf();

    const answers = await Promise.all(Array.from({ length: 12 }, () => whoami({ key })));

    expect(set).toMatchObject({
      access: 'client_credentials',
      issuer: upstream.issuer,
      resource: upstream.url,
      scopes: ['read'],
    });
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(answers[0]?.text).toContain('you are latchkey-there');
    expect(upstream.asked).toHaveLength(1);
    expect(new URLSearchParams(upstream.asked[0]?.body).get('resource')).toBe(upstream.url);
  });

  test('a token that the upstream rejects is renewed once, and its 401 never reaches a caller', async () => {
    await setAccess('--client-credentials');
    const key = await keyOf();
    await whoami({ key });
    const [token = ''] = upstream.issued;
    upstream.refuse(token);

    const renewed = await whoami({ key });
    const write = await whoami({ key }, 'write');

    expect(renewed).toMatchObject({ status: 200, text: expect.stringContaining('you are') });
    expect(upstream.asked).toHaveLength(2);
    expect(write.status).toBe(200);
    expect(write.text).toContain('your account has too few permissions at this MCP server');
    expect(write.headers.get('www-authenticate')).toBeNull();
  });

  test.each<[string, () => Promise<unknown>]>([
    ['its access is removed', () => command('server', 'set-access', 'acme/sales', '--none')],
    ['another access takes its place', () => setAccess('--per-person')],
    ['other scopes are asked for', () => askedAnew()],
    ['the server is pointed elsewhere', () => pointAt('http://127.0.0.1:9/mcp')],
  ])('the token is revoked at the authorization server when %s', async (_title, end) => {
    await setAccess('--client-credentials');
    await whoami({ key: await keyOf() });
    const [token] = upstream.issued;

    await end();

    await vi.waitFor(() => expect(revocations()).toEqual([token]), patient);
    await audited('server:acme/sales', 'done');
  });

  test('an unavailable authorization server is reported as an unavailable upstream', async () => {
    await setAccess('--client-credentials');
    upstream.breakTokens(true);

    const answer = await whoami({ key: await keyOf() });

    expect(answer.status).toBe(502);
    expect(answer.text).toContain('cannot be reached');
  });

  test('another URL of the server never gets a token', async () => {
    await setAccess('--client-credentials');
    const key = await keyOf();
    await whoami({ key });
    await using other = await tokenUpstream();
    await pointAt(other.url);

    const answer = await whoami({ key });

    expect(answer.status).toBe(502);
    expect(other.seen.map(({ authorization }) => authorization)).toEqual([undefined]);
  });
});

describe('upstream access with each person’s own account', () => {
  beforeEach(() => setAccess('--per-person'));

  test('two people use two accounts, and a third person uses neither', async () => {
    const [dana, eve, vic] = [
      await server.browser(),
      await server.browser(),
      await server.browser('viewer'),
    ];
    const [danas, eves, vics] = [await tokenOf(dana), await tokenOf(eve), await tokenOf(vic)];
    const before = await whoami({ token: danas });
    const led = [await connect(dana, 'dana-there'), await connect(vic, 'vic-there')];
    const alone = await whoami({ token: eves });
    await connect(eve, 'eve-there');
    const after = await Promise.all(
      [danas, eves, vics, danas, eves].map(async (token) => (await whoami({ token })).text),
    );
    const key = await whoami({ key: await keyOf() });

    expect(before).toMatchObject({ status: 200, errorCode: undefined });
    expect(JSON.parse(before.text).result).toMatchObject({ isError: true });
    expect(before.text).toContain(`open ${server.base}${path}`);
    expect(led).toEqual([`${path}?done=connected`, `${path}?done=connected`]);
    expect(alone.text).toContain(`open ${server.base}${path}`);
    expect(after.map((text) => /you are ([\w-]+)/.exec(text)?.[1])).toEqual([
      'dana-there',
      'eve-there',
      'vic-there',
      'dana-there',
      'eve-there',
    ]);
    expect(key.text).toContain('sign in as a person');
    // Set-up and health checks ask without a token; no call does, and no token is refused.
    const refused = upstream.seen.filter(({ status }) => status === 401);
    expect(refused.filter((one) => one.authorization ?? one.tool)).toEqual([]);
  });

  test('an assistant that supports URL elicitation is asked to connect, in both eras', async () => {
    const token = await tokenOf(await server.browser());
    const showing = { elicitation: { url: {} } };
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: showing,
      clientInfo: { name: 'x', version: '1' },
    };
    const legacy = await mcpCall(endpoint, { token, body: rpc('initialize', params) });
    const { body, headers } = modern('tools/call', { name: 'whoami', arguments: {} });
    const asked = body.replace(
      '"io.modelcontextprotocol/clientCapabilities":{}',
      `"io.modelcontextprotocol/clientCapabilities":${JSON.stringify(showing)}`,
    );
    const modernAnswer = await mcpCall(endpoint, { token, headers, body: asked });
    const silent = await mcpCall(endpoint, { token, headers, body });

    const url = server.base + path;
    expect(JSON.parse(legacy.text).error).toMatchObject({
      code: -32042,
      data: { elicitations: [{ mode: 'url', url, elicitationId: expect.any(String) }] },
    });
    expect(JSON.parse(modernAnswer.text).result).toMatchObject({
      resultType: 'input_required',
      inputRequests: {
        'latchkey-connect': { method: 'elicitation/create', params: { mode: 'url', url } },
      },
    });
    expect(JSON.parse(silent.text).result).toEqual({
      resultType: 'complete',
      content: [{ type: 'text', text: expect.stringContaining(`open ${url}`) }],
      isError: true,
    });
  });

  test('81: a callback of another session, another person or a past request connects no account', async () => {
    const [dana, eve] = [await server.browser(), await server.browser()];
    const back = await upstream.consent(await begun(dana), 'mallory');
    const callback = back.pathname + back.search;
    const places = [
      await page(eve, callback),
      await page(dana, callback.replace(/state=[^&]{5}/, 'state=AAAAA')),
      await page(
        dana,
        callback.replace(/iss=[^&]+/, `iss=${encodeURIComponent('https://as.evil')}`),
      ),
      await page(dana, callback),
    ].map(({ headers }) => headers.get('location'));
    const nobody = await fetch(server.base + callback, { redirect: 'manual' });
    const denied = await begun(dana);
    const state = new URL(denied).searchParams.get('state') ?? '';
    const iss = encodeURIComponent(upstream.issuer);
    const refusal = await page(
      dana,
      `${path}/callback?error=access_denied&state=${encodeURIComponent(state)}&iss=${iss}`,
    );

    // The third callback used up the state: an attacker who mixes up issuers has one try, and gets no code.
    const refused = `${path}?problem=refused`;
    expect(places).toEqual([refused, refused, `${path}?problem=unusable`, refused]);
    expect(nobody.headers.get('location')).toMatch(/^\/sign-in\?next=/);
    expect(refusal.headers.get('location')).toBe(`${path}?problem=denied`);
    expect((await whoami({ token: await tokenOf(dana) })).text).toContain('connect your account');
    expect(upstream.issued.size).toBe(0);
  });

  test('81: connecting and disconnecting need a form of the server’s own page', async () => {
    const dana = await server.browser();
    await connect(dana, 'dana-there');
    const forged = await Promise.all(
      [path, `${path}/disconnect`].map((where) =>
        page(dana, where, {
          method: 'POST',
          headers: { origin: server.base },
          body: new URLSearchParams({ csrf_token: 'x' }),
        }),
      ),
    );

    expect(forged.map(({ status }) => status)).toEqual([403, 403]);
    expect((await whoami({ token: await tokenOf(dana) })).text).toContain('you are dana-there');
  });

  test('a person outside the server’s groups cannot connect an account', async () => {
    const [inside, outside] = [await server.browser('member'), await server.browser('member')];
    const { db } = server.stores;
    const organizationId = (await findOrganization(db, 'acme'))?.id ?? '';
    const group = { id: 'group_sales', organizationId, name: 'Sales', createdAt: 1 };
    await insertGroup(db, group);
    await insertGroupMember(db, organizationId, group.id, inside.userId);
    const asked = await begun(outside);
    const back = await upstream.consent(asked, 'erin');
    await setServerAccess(db, 'srv_sales', { access: 'groups', groupIds: [group.id] });
    try {
      const late = await page(outside, back.pathname + back.search);
      const pressed = await press(outside, path);

      expect([late.status, pressed.status]).toEqual([403, 403]);
      expect(upstream.issued.size).toBe(0);
      expect(await connect(inside, 'dana')).toBe(`${path}?done=connected`);
    } finally {
      await setServerAccess(db, 'srv_sales', { access: 'everyone', groupIds: [] });
    }
  });

  test('disconnecting takes effect immediately and revokes the tokens at the authorization server', async () => {
    const dana = await server.browser();
    const token = await tokenOf(dana);
    await connect(dana, 'dana-there');
    const given = [...upstream.issued];

    const led = await press(dana, `${path}/disconnect`);

    const after = await whoami({ token });
    expect(led.headers.get('location')).toBe(`${path}?done=disconnected`);
    expect(after.text).toContain('connect your account');
    await vi.waitFor(() => expect(new Set(revocations())).toEqual(new Set(given)), patient);
    await audited(`connection:${dana.userId} server:acme/sales`, 'done');
  });

  test('an unavailable authorization server does not delay disconnecting', async () => {
    const dana = await server.browser();
    const token = await tokenOf(dana);
    await connect(dana, 'dana-there');
    upstream.breakTokens(true);

    const led = await press(dana, `${path}/disconnect`);

    expect(led.headers.get('location')).toBe(`${path}?done=disconnected`);
    expect((await whoami({ token })).text).toContain('connect your account');
    await audited(`connection:${dana.userId} server:acme/sales`, 'refused');
  });

  test('connecting another account revokes the first before consent is requested', async () => {
    const dana = await server.browser();
    const token = await tokenOf(dana);
    await connect(dana, 'dana-there');
    const given = [...upstream.issued];

    const asked = await begun(dana);
    const told = new Set(revocations());
    const back = await upstream.consent(asked, 'dana-elsewhere');
    await page(dana, back.pathname + back.search);

    expect(told).toEqual(new Set(given));
    expect((await whoami({ token })).text).toContain('you are dana-elsewhere');
    expect(revocations()).toHaveLength(2);
  });

  test('a person who leaves the organization leaves no tokens behind', async () => {
    const dana = await server.browser();
    await connect(dana, 'dana-there');

    await removeMember(server.stores.db, 'org_acme', dana.userId, 'member');

    await vi.waitFor(async () => {
      const rows = await server.stores.db
        .selectFrom('upstream_connection')
        .selectAll()
        .where('subject', '=', dana.userId)
        .execute();
      expect(rows).toEqual([]);
    }, patient);
    expect(upstream.asked.filter((one) => one.path.includes('revocation'))).toHaveLength(2);
  });

  test('a token that the upstream rejects is renewed once for many callers', async () => {
    const dana = await server.browser();
    const token = await tokenOf(dana);
    await connect(dana, 'dana-there');
    await whoami({ token });
    const access = [...upstream.issued].find((one) => one.startsWith('ey')) ?? '';
    upstream.refuse(access);

    const answers = await Promise.all(Array.from({ length: 10 }, () => whoami({ token })));

    const refreshes = upstream.asked.filter(({ body }) =>
      body.includes('grant_type=refresh_token'),
    );
    expect(answers.filter(({ text }) => !text.includes('you are dana-there'))).toEqual([]);
    expect(refreshes).toHaveLength(1);
    expect(new URLSearchParams(refreshes[0]?.body).get('resource')).toBe(upstream.url);
  });

  test('a rejected refresh token asks the person to connect again, and is not retried', async () => {
    const dana = await server.browser();
    const token = await tokenOf(dana);
    await connect(dana, 'dana-there');
    const access = [...upstream.issued].find((one) => one.startsWith('ey')) ?? '';
    const refresh = [...upstream.issued].find((one) => !one.startsWith('ey')) ?? '';
    const revoked = await fetch(`${upstream.issuer}/token/revocation`, {
      method: 'POST',
      body: new URLSearchParams({ token: refresh }),
      headers: {
        authorization: `Basic ${btoa(`${upstream.clientId}:${encodeURIComponent(upstream.clientSecret)}`)}`,
      },
    });
    upstream.refuse(access);

    const answers = [await whoami({ token }), await whoami({ token })];
    const refreshes = upstream.asked.filter(({ body }) =>
      body.includes('grant_type=refresh_token'),
    );
    const html = await (await page(dana)).text();

    expect(revoked.status).toBe(200);
    expect(answers.every(({ text }) => text.includes('connect your account'))).toBe(true);
    expect(refreshes).toHaveLength(1);
    expect(html).toContain('no longer accepts your earlier sign-in');
  });

  test('85: no upstream token is in the database, its audit log, a backup or a page', async () => {
    const dana = await server.browser();
    await connect(dana, 'dana-there');
    const token = await tokenOf(dana);
    await whoami({ token });
    const backup = join(server.dataDir, `backup-${Date.now()}.db`);
    await command('backup', backup);
    const files = readdirSync(server.dataDir)
      .filter((name) => name.includes('.db'))
      .map((name) => readFileSync(join(server.dataDir, name)).toString('latin1'));
    const html = await (await page(dana)).text();

    const secrets = [...upstream.issued, upstream.clientSecret];
    expect(secrets.length).toBeGreaterThan(2);
    expect(files.length).toBeGreaterThan(1);
    for (const secret of secrets) {
      expect([...files, html].filter((text) => text.includes(secret))).toEqual([]);
    }
  });
});

describe('upstream access at an authorization server without resource indicators', () => {
  beforeEach(async () => {
    await upstream[Symbol.asyncDispose]();
    const redirectUris = [`${server.base}${path}/callback`];
    upstream = await tokenUpstream({ redirectUris, refusesResource: true });
    await pointAt(upstream.url);
  });
  const named = () =>
    upstream.asked.filter(({ body }) => new URLSearchParams(body).has('resource')).length;

  test('fails until an administrator omits the resource, and is not retried', async () => {
    await setAccess('--client-credentials');
    const key = await keyOf();
    const refused = await whoami({ key });
    // The server's own probe of the upstream may ask as well, at any time.
    const asked = upstream.asked.length;
    const askedFor = named();
    const set = await setAccess('--client-credentials', '--omit-resource');
    const answered = await whoami({ key });

    expect(JSON.parse(refused.text).result).toMatchObject({ isError: true });
    expect([1, 2]).toContain(asked);
    expect(askedFor).toBe(asked);
    expect(set).toMatchObject({ resource: null });
    expect(answered.text).toContain('you are latchkey-there');
    expect(new URLSearchParams(upstream.asked.at(-1)?.body).has('resource')).toBe(false);
  });

  test('tells a person who connects an account to tell an administrator', async () => {
    await setAccess('--per-person');
    const dana = await server.browser();
    const token = await tokenOf(dana);
    const led = await connect(dana, 'dana-there');
    const html = await (await page(dana, led ?? '')).text();
    await setAccess('--per-person', '--omit-resource');
    const again = await connect(dana, 'dana-there');
    await whoami({ token });
    upstream.refuse([...upstream.issued].find((one) => one.startsWith('ey')) ?? '');

    expect(led).toBe(`${path}?problem=unusable`);
    expect(html).toContain('Ask an administrator');
    expect(again).toBe(`${path}?done=connected`);
    expect((await whoami({ token })).text).toContain('you are dana-there');
    expect(upstream.asked.some(({ body }) => body.includes('grant_type=refresh_token'))).toBe(true);
    expect(named()).toBe(0);
  });
});

test('upstream access: with dynamic registration a person connects, and the registration is deleted at the end', async () => {
  await using registering = await tokenUpstream({ registers: true });
  await pointAt(registering.url);
  const places = ['--issuer', registering.issuer, '--outbound-host', '127.0.0.1'];
  const known = ['--per-person', ...places, '--base-url', server.base];
  const set = await command('server', 'set-access', 'acme/sales', ...known);
  const dana = await server.browser();
  const token = await tokenOf(dana);
  const back = await registering.consent(await begun(dana), 'dana-there');
  await page(dana, back.pathname + back.search);
  const answer = await whoami({ token });
  const kept = [...registering.deleted];
  await command('server', 'set-access', 'acme/sales', '--none');
  await vi.waitFor(() => expect(registering.deleted).not.toEqual([]), patient);
  // The running server has written its public URL into the data folder.
  const again = await command('server', 'set-access', 'acme/sales', '--per-person', ...places);

  expect(again['client_id']).not.toBe(set['client_id']);
  expect(set['client_id']).not.toBe(registering.clientId);
  expect(answer.text).toContain('you are dana-there');
  expect([kept, registering.deleted]).toEqual([
    [],
    [expect.stringMatching(`/reg/${String(set['client_id'])} 204`)],
  ]);
  // By then that client had revoked its tokens.
  expect(
    registering.asked.filter(({ path: at }) => at.includes('revocation')).length,
  ).toBeGreaterThan(0);
});

test('upstream access: a server’s client metadata document does not reveal whether that server exists', async () => {
  const at = async (where: string) => {
    const answer = await fetch(`${server.base}/oauth/clients/upstream/${where}`);
    return { status: answer.status, body: await answer.json() };
  };
  const [there, nowhere, wrong] = [
    await at('acme/sales'),
    await at('no/where'),
    await at('a/%2e%2e'),
  ];

  expect(there).toMatchObject({
    status: 200,
    body: {
      client_id: `${server.base}/oauth/clients/upstream/acme/sales`,
      redirect_uris: [`${server.base}${path}/callback`],
      token_endpoint_auth_method: 'none',
    },
  });
  expect(nowhere.status).toBe(200);
  expect(wrong.status).toBe(404);
});

describe('caller assertion', () => {
  const assertions = () =>
    upstream.seen
      .map(({ authorization, caller }) => caller ?? authorization?.replace(/^Bearer /, '') ?? '')
      .filter((text) => text !== '');
  const verified = (text: string) =>
    jwtVerify(text, createRemoteJWKSet(new URL(`${server.base}/.well-known/jwks.json`)), {
      issuer: server.base,
      audience: upstream.url,
      typ: 'at+jwt',
    });

  test('none is sent unless the server is configured for it', async () => {
    await whoami({ key: await keyOf() });

    expect(assertions()).toEqual([]);
  });

  test('it is for the upstream alone, short-lived, new for each call, and names the person', async () => {
    await command('server', 'set-access', 'acme/sales', '--forward-caller', 'yes');
    const dana = await server.browser();
    const token = await tokenOf(dana);
    await whoami({ token });
    await whoami({ token });
    const all = await Promise.all(assertions().map(verified));
    const replayed = await mcpCall(endpoint, { token: assertions()[0] ?? '' });

    expect(all.length).toBeGreaterThan(1);
    for (const { payload, protectedHeader } of all) {
      expect(protectedHeader.alg).toBe('EdDSA');
      expect(payload).toMatchObject({ sub: dana.userId, client_id: server.client.id, endpoint });
      expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBeLessThanOrEqual(60);
    }
    expect(new Set(all.map(({ payload }) => payload.jti)).size).toBe(all.length);
    expect(replayed.status).toBe(401);
  });

  test('it has its own header beside an upstream token', async () => {
    await setAccess('--client-credentials', '--forward-caller', 'yes');
    const key = await keyOf();
    await whoami({ key });
    const last = upstream.seen.at(-1);

    expect(decodeJwt(last?.caller ?? '')).toMatchObject({ aud: upstream.url });
    expect(decodeJwt(last?.authorization?.replace('Bearer ', '') ?? '')).toMatchObject({
      iss: upstream.issuer,
    });
  });
});
