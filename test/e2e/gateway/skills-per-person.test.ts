/** Skills beside an upstream that each person reaches with an account of their own there. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, expect, test, vi } from 'vitest';

import { updateServer } from '#server/db/servers';
import { grantingServer, type Browser } from '#support/granting-server';
import { mcpCall, modern, rpc } from '#support/mcp-call';
import { runCommandInProcess } from '#support/run-command-in-process';
import { skillText, writeFiles } from '#support/skill-text';
import { temporaryFolder } from '#support/temporary-folder';
import { tokenUpstream } from '#support/token-upstream';
import { patient } from '#support/patient';

const path = '/dashboard/acme/servers/sales/account';
const manifest = 'skill://orders/SKILL.md';

await using made = new AsyncDisposableStack();
const folder = made.use(await temporaryFolder());
await writeFiles(folder.path, { 'orders/SKILL.md': skillText('orders') });
const server = made.use(
  await grantingServer({
    args: ['--outbound-host', '127.0.0.1', '--skills', `acme/sales=${folder.path}`],
  }),
);
const upstream = made.use(
  await tokenUpstream({ redirectUris: [`${server.base}${path}/callback`] }),
);
await updateServer(server.stores.db, 'srv_sales', {
  upstream: { kind: 'http', url: upstream.url, publicOnly: true },
});
const secretFile = join(server.dataDir, 'upstream-secret');
writeFileSync(secretFile, upstream.clientSecret, { mode: 0o600 });
const words = ['server', 'set-access', 'acme/sales', '--per-person', '--issuer', upstream.issuer];
const inside = ['--outbound-host', '127.0.0.1'];
const client = ['--client-id', upstream.clientId, '--client-secret-file', secretFile];
await runCommandInProcess([...words, ...client, ...inside, '--data-dir', server.dataDir]);
const owned = made.move();
afterAll(() => owned.disposeAsync());

const endpoint = `${server.base}/mcp/acme/sales`;

/** Somebody of acme with a token for the endpoint. */
async function person() {
  const browser = await server.browser();
  const scope = 'mcp:tools:read,mcp:tools:execute,mcp:resources:read';
  const { accessToken: token } = await server.signIn(browser, { scope });
  const ask = async (method: string, params: Record<string, unknown> = {}, session?: string) => {
    const headers = session === undefined ? {} : { 'mcp-session-id': session };
    return mcpCall(endpoint, { token, headers, body: rpc(method, params) });
  };
  const askModern = (method: string, params: Record<string, unknown> = {}) =>
    mcpCall(endpoint, { token, ...modern(method, params) });
  return { browser, token, ask, askModern };
}

async function press({ cookie }: Browser, where: string) {
  const html = await (await fetch(server.base + where, { headers: { cookie } })).text();
  const token = /name="csrf_token" value="([^"]+)"/.exec(html)?.[1] ?? '';
  return fetch(server.base + where, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie, origin: server.base },
    body: new URLSearchParams({ csrf_token: token }),
  });
}

async function connect(browser: Browser, login: string) {
  const html = await (await press(browser, path)).text();
  const page = (/url=([^"]+)"/.exec(html)?.[1] ?? '').replaceAll('&amp;', '&');
  const back = await upstream.consent(page, login);
  const { cookie } = browser;
  await fetch(server.base + back.pathname + back.search, { headers: { cookie } });
}

const initialize = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'a client', version: '1' },
};

test('skills: a person without an upstream account is asked to connect it first', async () => {
  const { ask, askModern } = await person();
  const answers = [
    await ask('resources/list'),
    await ask('skills/list'),
    await ask('initialize', initialize),
    await askModern('resources/list'),
  ];

  for (const { text } of answers) {
    expect(text).toContain(`open ${server.base}${path}`);
    expect(text).not.toContain('skill://');
  }
});

test('skills: two people get the same ones, beside the resources of their own accounts', async () => {
  const [dana, eve] = [await person(), await person()];
  await connect(dana.browser, 'dana-there');
  await connect(eve.browser, 'eve-there');
  const lists = [
    await dana.ask('resources/list'),
    await dana.askModern('resources/list'),
    await eve.ask('resources/list'),
    await eve.askModern('resources/list'),
  ];
  const reads = [
    await dana.ask('resources/read', { uri: manifest }),
    await eve.askModern('skills/get', { uri: manifest }),
    await eve.ask('resources/templates/list'),
  ];
  const own = await eve.askModern('resources/read', { uri: 'account://any' });

  for (const { text } of lists) expect(text).toContain(`"uri":"${manifest}"`);
  expect(lists.map(({ text }) => /account:\/\/([\w-]+)/.exec(text)?.[1])).toEqual([
    'dana-there',
    'dana-there',
    'eve-there',
    'eve-there',
  ]);
  for (const { text } of reads) expect(text).toContain('skill://');
  expect(own.text).toContain('of eve-there');
});

test('skills: a session and its notifications belong to one person, and end with their account', async () => {
  const [dana, eve] = [await person(), await person()];
  await connect(dana.browser, 'dana-there');
  await connect(eve.browser, 'eve-there');
  const opened = await dana.ask('initialize', initialize);
  const session = opened.headers.get('mcp-session-id') ?? '';
  const subscribed = await dana.ask('resources/subscribe', { uri: manifest }, session);
  const stolen = await eve.ask('resources/subscribe', { uri: manifest }, session);
  const news = await listening(dana.token, { 'mcp-session-id': session });
  const { body, headers } = modern('subscriptions/listen', {
    notifications: { resourcesListChanged: true, resourceSubscriptions: [manifest] },
  });
  const modernNews = await listening(dana.token, headers, body);
  await vi.waitFor(() => expect(modernNews.heard()).toContain('acknowledged'), patient);
  await writeFiles(folder.path, { 'orders/SKILL.md': skillText('orders', 'Anew.') });

  expect(session).not.toBe('');
  expect(JSON.parse(subscribed.text)).toHaveProperty('result');
  expect(stolen.status).toBe(404);
  for (const { heard } of [news, modernNews]) {
    await vi.waitFor(() => expect(heard()).toContain('resources/list_changed'), patient);
    await vi.waitFor(() => expect(heard()).toContain('resources/updated'), patient);
  }
  await press(dana.browser, `${path}/disconnect`);
  await Promise.all([news.over, modernNews.over]);
});

/** Opens a stream of notifications. Returns the text that has arrived, and a promise of its end. */
async function listening(token: string, more: Record<string, string>, body?: string) {
  const response = await fetch(endpoint, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      accept: 'text/event-stream, application/json',
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...more,
    },
    ...(body !== undefined && { body }),
  });
  let heard = '';
  const over = (async () => {
    for await (const chunk of response.body ?? []) heard += Buffer.from(chunk).toString();
  })().catch(() => undefined);
  return { heard: () => heard, over };
}
