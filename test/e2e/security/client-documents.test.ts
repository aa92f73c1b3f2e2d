import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { fetchText } from '#server/outbound/guarded-fetch';
import { countedServer, type CountedServer } from '#support/counted-server';
import { fakeClock, type FakeClock } from '#support/fake-clock';
import { grantingServer, type Browser, type GrantingServer } from '#support/granting-server';

const origin = 'https://client.test';
const redirectUri = 'https://client.test/cb';
let site: CountedServer;
let clock: FakeClock;
let server: GrantingServer;
let dana: Browser;
const documents: Record<string, unknown> = {};

/** A document in which everything is right, except the members of `but`. */
const described = (path: string, but: object = {}) => ({
  client_id: origin + path,
  client_name: 'Described',
  redirect_uris: [redirectUri],
  token_endpoint_auth_method: 'none',
  ...but,
});

beforeAll(async () => {
  site = await countedServer((request, response) => {
    const path = request.url ?? '';
    const json = { 'content-type': 'application/json' };
    if (path === '/slow.json') return response.writeHead(200, json).write('{');
    if (path === '/moved.json') return response.writeHead(302, { location: '/right.json' }).end();
    const document = documents[path];
    const text = typeof document === 'string' ? document : JSON.stringify(document ?? null);
    return response.writeHead(document === undefined ? 404 : 200, json).end(text);
  });
  clock = fakeClock();
  // The real guard, with the local site in place of one on the web.
  const fetchDocument = (url: string) =>
    fetchText(url.replace(origin, site.origin), {
      timeoutMs: url.includes('/slow') ? 500 : 30_000,
      maxBytes: 20 * 1024,
      allowedHosts: ['127.0.0.1'],
      resolve: async () => [],
    });
  server = await grantingServer({ clock, fetchDocument });
  dana = await server.browser();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await site[Symbol.asyncDispose]();
});

// One person causes a few requests a minute only.
beforeEach(() => clock.advance(60));

const ask = (path: string, but = {}, browser = dana) =>
  server.authorize(browser, {
    client_id: origin + path,
    redirect_uri: redirectUri,
    resource: `${server.base}/mcp/acme/sales`,
    ...but,
  });

test('client metadata document: it identifies the client, for the server that the request names', async () => {
  documents['/right.json'] = described('/right.json');
  const but = {
    client_id: `${origin}/right.json`,
    redirect_uri: redirectUri,
    resource: `${server.base}/mcp/acme/sales`,
  };
  const page = await (await ask('/right.json')).text();
  const { json } = await server.redeem(await server.code(dana, but), {
    client_id: but.client_id,
    redirect_uri: redirectUri,
  });

  expect(page).toContain('Described');
  expect(await server.call(String(json['access_token']))).toBe(200);
  expect(json['refresh_token']).toMatch(/^rt_/);
});

test('76: client metadata document: none is fetched before a person has signed in', async () => {
  const before = site.seen.length;
  const answer = await server.authorize(undefined, { client_id: `${origin}/unseen.json` });

  expect(answer.status).toBe(303);
  expect(answer.headers.get('location')).toMatch(/^\/sign-in\?next=/);
  expect(site.seen).toHaveLength(before);
});

describe('76: client metadata document: a URL that is not on the public internet is not a client', () => {
  let guarded: GrantingServer;
  beforeAll(async () => {
    guarded = await grantingServer();
  });
  afterAll(() => guarded[Symbol.asyncDispose]());

  test.each([
    'https://127.0.0.1/c.json',
    'https://2130706433/c.json',
    'https://0177.0.0.1/c.json',
    'https://[::1]/c.json',
    'https://[::ffff:127.0.0.1]/c.json',
    'https://10.0.0.1/c.json',
    'https://169.254.169.254/latest/meta-data',
    'https://0.0.0.0/c.json',
    'https://localhost/c.json',
    'http://client.test/c.json',
  ])('%s', async (clientId) => {
    // Another person each time, because one causes a few requests a minute only.
    const answer = await guarded.authorize(await guarded.browser(), { client_id: clientId });

    expect(answer.status).toBe(400);
    expect(answer.headers.has('location')).toBe(false);
  });
});

describe('77: a client metadata document is refused', () => {
  test.each<[string, string, unknown]>([
    ['above 20 KB', '/long.json', described('/long.json', { padding: 'x'.repeat(20_480) })],
    ['that is slow', '/slow.json', undefined],
    ['that redirects', '/moved.json', undefined],
    ['that is no JSON', '/text.json', 'not json'],
    ['of another client', '/other.json', described('/right.json')],
    ['with a secret', '/secret.json', described('/secret.json', { client_secret: 'x' })],
    [
      'that asks for a secret',
      '/basic.json',
      described('/basic.json', { token_endpoint_auth_method: 'client_secret_basic' }),
    ],
    [
      'with a wildcard redirect',
      '/wild.json',
      described('/wild.json', { redirect_uris: ['https://*.client.test/cb'] }),
    ],
    [
      'with a redirect host that no policy can name',
      '/comma.json',
      described('/comma.json', { redirect_uris: [redirectUri, 'https://e.test,evil/cb'] }),
    ],
    [
      'with script for a logo',
      '/logo.json',
      described('/logo.json', { logo_uri: 'javascript:alert(1)' }),
    ],
    ['that is not there', '/missing.json', undefined],
  ])('%s', async (_, path, document) => {
    if (document !== undefined) documents[path] = document;
    const answer = await ask(path);

    expect(answer.status).toBe(400);
    expect(answer.headers.has('location')).toBe(false);
  });
});

test('77: client metadata document: read again after an hour, and then its new redirect URIs apply', async () => {
  documents['/moving.json'] = described('/moving.json');
  expect((await ask('/moving.json')).status).toBe(200);
  documents['/moving.json'] = described('/moving.json', {
    redirect_uris: ['https://client.test/new'],
  });
  const cached = (await ask('/moving.json')).status;
  await clock.advance(3600);

  expect(cached).toBe(200);
  expect((await ask('/moving.json')).status).toBe(400);
  expect((await ask('/moving.json', { redirect_uri: 'https://client.test/new' })).status).toBe(200);
});

describe('102: a client metadata document', () => {
  const fetchesOf = (path: string) => site.seen.filter((seen) => seen.path === path).length;

  test.each([
    ['that is not there', '/gone.json', undefined],
    ['that is no client', '/nobody.json', described('/elsewhere.json')],
  ])(
    '%s is not fetched again for a minute, for anyone, and the page says when it will be',
    async (_, path, document) => {
      if (document !== undefined) documents[path] = document;
      const first = await (await ask(path)).text();
      await clock.advance(20);
      const again = await ask(path);
      const others = await ask(path, {}, await server.browser());
      const fetched = fetchesOf(path);
      documents[path] = described(path);
      await clock.advance(40);
      const fixed = await ask(path);

      expect(first).toContain('reads it again in 60 seconds');
      expect([again.status, others.status, fetched]).toEqual([400, 400, 1]);
      expect(again.headers.get('retry-after')).toBe('40');
      expect(await again.text()).toContain('reads it again in 40 seconds');
      expect([fixed.status, fetchesOf(path)]).toEqual([200, 2]);
    },
  );

  test('requested many times concurrently is fetched once', async () => {
    documents['/crowded.json'] = described('/crowded.json');
    const people = await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map(() => server.browser()));
    const answers = await Promise.all(people.map((person) => ask('/crowded.json', {}, person)));

    expect(answers.map(({ status }) => status)).toEqual(people.map(() => 200));
    expect(fetchesOf('/crowded.json')).toBe(1);
  });

  test('makes a person wait after five others in a minute, and only that person', async () => {
    const before = site.seen.length;
    const paths = [1, 2, 3, 4, 5, 6, 7, 8].map((n) => `/many-${n}.json`);
    for (const path of paths) documents[path] = described(path);
    const statuses = [];
    for (const path of paths) statuses.push((await ask(path)).status);
    const fetched = site.seen.length - before;
    const waiting = await ask('/many-8.json');
    const known = await ask('/many-1.json');
    const other = await ask('/many-8.json', {}, await server.browser());
    await clock.advance(60);
    const later = await ask('/many-7.json');

    expect(statuses).toEqual([200, 200, 200, 200, 200, 429, 429, 429]);
    expect(fetched).toBe(5);
    expect(waiting.headers.get('retry-after')).toBe('60');
    expect(waiting.headers.has('location')).toBe(false);
    expect(await waiting.text()).toContain('in 60 seconds');
    expect([known.status, other.status, later.status]).toEqual([200, 200, 200]);
  });
});

test('client metadata document: the proxy’s own one is published, and is a client without being fetched', async () => {
  const url = `${server.base}/oauth/clients/latchkey.json`;
  const document: Record<string, unknown> = JSON.parse(await (await fetch(url)).text());
  const answer = await server.authorize(dana, {
    client_id: url,
    redirect_uri: 'http://127.0.0.1:50123/callback',
    resource: `${server.base}/mcp/acme/sales`,
  });
  const elsewhere = await server.authorize(dana, { client_id: `${server.base}/healthz` });

  expect(document).toMatchObject({ client_id: url, token_endpoint_auth_method: 'none' });
  expect(answer.status).toBe(200);
  expect(await answer.text()).toContain('Latchkey');
  expect(elsewhere.status).toBe(400);
});
