import { expect, onTestFinished, test, vi } from 'vitest';

import { addGaps } from '#server/db/call-gaps';
import { recordDevice } from '#server/db/devices';
import { insertGrant } from '#server/db/grants';
import { insertKey } from '#server/db/keys';
import { insertOrganization } from '#server/db/organizations';
import type { Role } from '#server/model/roles';
import type { EndedCall } from '#server/model/calls';
import { recordCalls } from '#support/made-calls';
import { newKey } from '#support/made-records';
import { newestEvents } from '#support/newest-events';
import { pageApp, type PageApp } from '#support/page-app';

/** A person with this role in `acme`, whose servers got these calls an hour ago. */
async function recorded(role: Role, calls: readonly Partial<EndedCall>[]) {
  const app = await pageApp();
  onTestFinished(() => app[Symbol.asyncDispose]());
  const { db } = app.server.stores;
  const { cookie } = await app.browser('user_dora', { organizationId: 'org_acme', role });
  await app.browser('user_eli', { organizationId: 'org_acme', role: 'member' });
  await insertOrganization(db, { id: 'org_other', name: 'other', createdAt: 1 });
  const nowMs = (app.server.clock.now() - 3600) * 1000;
  await recordCalls(db, nowMs, calls.map(at));
  const look = (query = '') => app.get(`/dashboard/acme/activity${query}`, cookie);
  return { app, cookie, look, nowMs };
}

const sales = { id: 'srv_sales', organization: 'acme', name: 'sales' };
const at = (call: Partial<EndedCall>): Partial<EndedCall> => ({
  endpoint: sales,
  target: { id: 'target_sales', name: 'sales' },
  ...call,
});

const sentencesOf = (text: string) =>
  [...text.matchAll(/<div class="sentence">([\s\S]*?)<\/div>/g)].map(([, one = '']) =>
    one
      .replaceAll(/<p class="note">/g, ' ')
      .replaceAll(/<[^>]+>/g, '')
      .replaceAll(/\s+/g, ' ')
      .trim(),
  );

const claude = { text: 'Claude Desktop 1.2', source: 'client_info' } as const;

test('activity: a call is a sentence, the newest first, with the reason of a failed one', async () => {
  const { look } = await recorded('admin', [
    { userId: 'user_dora', application: claude, durationMs: 120 },
    { userId: 'user_eli', end: 'refused', error: 'insufficient_scope' },
    { userId: 'user_eli', method: 'resources/read', subject: 'file:///a', end: 'tool_error' },
  ]);

  const { text } = await look();

  expect(sentencesOf(text)).toEqual([
    'user_eli@example.com read file:///a of sales with client_claude Tool error The tool reported an error.',
    'user_eli@example.com tried to use search of sales with client_claude Refused The credential lacks the scope for it.',
    'user_dora@example.com used search of sales with “Claude Desktop 1.2” OK',
  ]);
  expect(text).toContain('120 ms');
});

test('activity: a value is a link that filters by it, and the filter can be removed', async () => {
  const { app, cookie, look } = await recorded('admin', [
    { userId: 'user_dora', application: claude },
    { userId: 'user_eli', subject: 'write' },
  ]);
  const { text } = await look();
  const [, href = ''] = /<a class="value" href="([^"]+)"[^>]*>Claude Desktop 1.2</.exec(text) ?? [];

  const filtered = await app.get(href.replaceAll('&amp;', '&'), cookie);
  const without = /<a href="([^"]+)" aria-label="Remove the filter Application"/.exec(
    filtered.text,
  );

  expect(sentencesOf(filtered.text)).toHaveLength(1);
  expect(sentencesOf(filtered.text)[0]).toContain('user_dora@example.com used search');
  expect(without?.[1]).toBe('/dashboard/acme/activity');
});

test.each([
  ['?person=user_eli@example.com', 1],
  ['?person=user_eli', 1],
  ['?person=nobody@example.com', 0],
  ['?tool=write', 1],
  ['?outcome=failed', 1],
  ['?outcome=ok', 2],
  ['?account=none', 2],
  ['?account=fixed_headers', 1],
  ['?account=server_account', 0],
  ['?account=junk', 3],
  ['?error=insufficient_scope', 1],
  ['?endpoint=srv_sales', 3],
  ['?server=target_sales', 3],
  ['?credential=client_claude', 3],
  ['?from=2001-01-01&until=2001-01-02', 0],
  ['?from=junk&until=junk', 3],
])('activity: %s selects %i calls', async (query, count) => {
  const { look } = await recorded('admin', [
    { userId: 'user_dora' },
    { userId: 'user_eli', subject: 'write', account: 'fixed_headers' },
    { userId: 'user_dora', end: 'refused', error: 'insufficient_scope' },
  ]);

  const { status, text } = await look(query);

  expect(status).toBe(200);
  expect(sentencesOf(text)).toHaveLength(count);
  expect(text.includes('No calls match.')).toBe(count === 0);
});

test.each([
  [
    '?tool=sear',
    'No calls match. The filter is the whole name: sear* also finds names that begin with sear.',
  ],
  ['?tool=refund*', 'No calls match. Choose an earlier day under'],
  [
    '?from=2001-01-01T00:00:00Z&until=2001-01-01T01:00:00Z',
    'No recorded calls. Usage also counts lists and other requests, which Activity records only if the server runs with --call-log-lists.',
  ],
])('activity: %s finds nothing and says why', async (query, words) => {
  const { look } = await recorded('admin', [{ userId: 'user_dora' }]);

  const { text } = await look(query);

  expect(text).toContain('placeholder="Tool, such as refund*"');
  expect(text).toContain(words);
});

test.each([
  [
    'user_ely@example.com',
    'No member of this organization has the address user_ely@example.com: check its spelling.',
    'user_eli@example.com',
  ],
  [
    'user_far@example.com',
    'No member of this organization has the address user_far@example.com: check its spelling.',
    undefined,
  ],
  ['bob', 'bob is not an e-mail address: enter a whole address.', 'bobo@example.com'],
  ['user_eli@example.com', 'No calls match. Choose an earlier day', undefined],
  ['user_gone', 'No calls match. Choose an earlier day', undefined],
  ['pseudonym_x', 'No calls match. Choose an earlier day', undefined],
])('activity: the person %s finds nothing and says why', async (person, words, meant) => {
  const { app, look } = await recorded('admin', [{ userId: 'user_dora' }]);
  await app.browser('bobo');
  await app.browser('user_far', { organizationId: 'org_other', role: 'member' });

  const { text } = await look(`?person=${person}`);

  const [, query, link] =
    /activity\?(person=[^"]+)">Show the calls of ([^<]+)<\/a>/.exec(text) ?? [];
  expect(text).toContain(words);
  expect(link).toBe(meant);
  expect(new URLSearchParams(query).get('person') ?? undefined).toBe(meant);
});

test('activity: older and newer pages stay stable while calls arrive', async () => {
  const tools = Array.from({ length: 60 }, (_, index) => ({ subject: `tool_${index}` }));
  const { app, cookie, look, nowMs } = await recorded('admin', tools);
  const next = (text: string, rel: string) =>
    new RegExp(`href="([^"]+)">${rel}<`).exec(text)?.[1]?.replaceAll('&amp;', '&') ?? '';
  const first = await look();
  await recordCalls(app.server.stores.db, nowMs + 60_000, [at({ subject: 'late' })]);

  const older = await app.get(next(first.text, 'Older'), cookie);
  const newer = await app.get(next(older.text, 'Newer'), cookie);
  const newest = await app.get(next(newer.text, 'Newer'), cookie);

  expect(sentencesOf(first.text)).toHaveLength(50);
  expect(first.text).not.toContain('>Newer<');
  expect(sentencesOf(older.text)).toHaveLength(10);
  expect(older.text).not.toContain('>Older<');
  expect(sentencesOf(newer.text)).toEqual(sentencesOf(first.text));
  expect(sentencesOf(newest.text).join()).toContain('used late of sales');
});

test.each(['member', 'viewer'] as const)(
  'activity: a %s sees only their own calls',
  async (role) => {
    const { app, cookie, look } = await recorded(role, [
      { userId: 'user_dora', subject: 'mine' },
      { userId: 'user_eli', subject: 'theirs' },
      { subject: 'of_a_key', credential: { type: 'key', id: 'key_1' } },
    ]);

    const own = await look();
    const tried = await look('?person=user_eli');
    const ids = await callIds(app);
    const statuses = await Promise.all(
      ids.map(async ({ id }) => (await app.get(`/dashboard/acme/activity/${id}`, cookie)).status),
    );

    expect(own.text).toContain('<h1 dir="auto">Your activity</h1>');
    expect(sentencesOf(own.text)).toEqual(['You used mine of sales with client_claude OK']);
    expect(own.text).not.toContain('name="person"');
    expect(tried.text).not.toContain('theirs');
    expect(ids.map(({ subject }) => subject)).toEqual(['mine', 'theirs', 'of_a_key']);
    expect(statuses).toEqual([200, 404, 404]);
  },
);

test.each([
  ['member', 'You'],
  ['admin', 'user_dora@example.com'],
] as const)(
  'activity: for the role %s, a call names the device, which selects its calls',
  async (role, who) => {
    const { app, look, nowMs } = await recorded(role, []);
    const { db } = app.server.stores;
    const known = { id: 'device_1', claimHash: 'c', name: 'vm', system: 'Linux' };
    const { client, clock } = app.server;
    await recordDevice(db, 'user_dora', known, clock.now());
    await insertGrant(db, {
      id: 'grant_1',
      userId: 'user_dora',
      clientId: client.id,
      serverId: sales.id,
      scopes: ['mcp:tools:read'],
      tools: { type: 'all' },
      redirectHost: '127.0.0.1',
      deviceId: known.id,
      authenticated: false,
      createdAt: clock.now(),
      expiresAt: clock.now() + 1000,
    });
    const call = { userId: 'user_dora', application: claude, grantId: 'grant_1' };
    await recordCalls(db, nowMs, [at(call), at({ userId: 'user_dora', subject: 'elsewhere' })]);

    const { text } = await look('?tool=search');
    const [, link = ''] = /href="[^"]*activity(\?[^"]*device=device_1[^"]*)"/.exec(text) ?? [];
    const there = await look(link.replaceAll('&amp;', '&'));

    const sentences = [`${who} used search of sales with “Claude Desktop 1.2” on vm OK`];
    expect(sentencesOf(text)).toEqual(sentences);
    expect(sentencesOf(there.text)).toEqual(sentences);
  },
);

/** An export of Activity, with its non-empty lines; the first line of CSV has the column names. */
async function exported(app: PageApp, cookie: string, query: string) {
  const path = `/dashboard/acme/activity/export${query}`;
  const { status, headers, text } = await app.api({ method: 'GET', path, headers: { cookie } });
  return { status, headers, lines: text.split(/\r?\n/).filter((line) => line !== '') };
}

test('activity: an export has everything that the filter selects, and is recorded in the audit log', async () => {
  const tools = Array.from({ length: 60 }, (_, index) => ({ subject: `tool_${index}` }));
  const { app, cookie, look } = await recorded('admin', [
    ...tools,
    { userId: 'user_eli', subject: '=1+1', end: 'tool_error' },
  ]);
  const { text } = await look('?outcome=ok');
  const links = [...text.matchAll(/href="([^"]+)">Export as/g)].map(([, href = '']) => href);

  const csv = await exported(app, cookie, '?format=csv');
  const lines = await exported(app, cookie, '?outcome=ok&format=jsonl');
  const empty = await look('?tool=nothing');
  const events = await newestEvents(app.server.stores.db, 2);

  const path = '/dashboard/acme/activity/export?outcome=ok&amp;format=';
  expect(links).toEqual([`${path}csv`, `${path}jsonl`]);
  expect(empty.text).not.toContain('Export as');
  expect(csv.lines).toHaveLength(62);
  expect(csv.lines[1]).toContain(`"'=1+1"`);
  expect(csv.headers['content-disposition']).toMatch(
    /^attachment; filename="activity-acme-\d{4}-\d\d-\d\d\.csv"$/,
  );
  expect(lines.lines.map((line) => JSON.parse(line).tool)).toEqual(
    tools.map(({ subject }) => subject).toReversed(),
  );
  expect(events.map(({ actor, action, target }) => ({ actor, action, target }))).toEqual([
    { actor: 'user:user_dora', action: 'call.export', target: 'jsonl' },
    { actor: 'user:user_dora', action: 'call.export', target: 'csv' },
  ]);
});

test.each(['activity', 'audit'])('%s: a HEAD request for the export is no export', async (page) => {
  const { app, cookie } = await recorded('admin', [{ subject: 'search' }]);
  const before = await newestEvents(app.server.stores.db, 10);

  const url = `/dashboard/acme/${page}/export?format=csv`;
  const { status, headers, text } = await app.api({
    method: 'HEAD',
    path: url,
    headers: { cookie },
  });

  expect([status, text]).toEqual([200, '']);
  expect(headers['content-disposition']).toContain('attachment');
  expect(await newestEvents(app.server.stores.db, 10)).toEqual(before);
});

test('activity: a member exports only their own calls', async () => {
  const { app, cookie } = await recorded('member', [
    { userId: 'user_dora', subject: 'mine' },
    { userId: 'user_eli', subject: 'theirs' },
  ]);

  const all = await exported(app, cookie, '');
  const others = await exported(app, cookie, '?person=user_eli');

  for (const { lines } of [all, others]) {
    expect(lines.map((line) => JSON.parse(line).tool)).toEqual(['mine']);
  }
});

test('activity: a call of another organization is not found', async () => {
  const { app, cookie, look } = await recorded('owner', [
    { subject: 'secret_tool', endpoint: { id: 'srv_x', organization: 'other', name: 'x' } },
  ]);
  const [theirs] = await callIds(app);

  const one = await app.get(`/dashboard/acme/activity/${theirs?.id}`, cookie);
  const list = await look(`?newer=${theirs?.id.slice(0, 12)}`);

  expect(one.status).toBe(404);
  expect(sentencesOf(list.text)).toEqual([]);
  expect(list.text).not.toContain('secret_tool');
});

test('activity: what a caller chose is escaped, cut and cannot reorder the page', async () => {
  const { app, cookie, look } = await recorded('admin', [
    {
      userId: 'user_dora',
      subject: `<img src=x>\u202e${'x'.repeat(400)}`,
      application: { text: `"><script>${'y'.repeat(400)}`, source: 'user_agent' },
    },
  ]);
  const [call] = await callIds(app);

  const { text } = await look();
  const one = await app.get(`/dashboard/acme/activity/${call?.id}`, cookie);

  for (const page of [text, one.text]) {
    expect(page).toContain('&lt;img src=x&gt;');
    expect(page).not.toContain('<img');
    expect(page).not.toContain('"><script>y');
    expect(page).not.toContain('\u202e');
  }
  expect(sentencesOf(text)[0]?.length).toBeLessThan(300);
});

test('a call: its page has every fact, the cause with its remedy, and links to what it names', async () => {
  const { app, cookie } = await recorded('admin', [
    {
      userId: 'user_eli',
      application: claude,
      end: 'upstream_error',
      error: 'upstream_refused_credentials',
      account: 'fixed_headers',
      status: 502,
      traceId: 'a'.repeat(32),
      requestId: 'req_1',
    },
  ]);
  const [call] = await callIds(app);

  const { text } = await app.get(`/dashboard/acme/activity/${call?.id}`, cookie);

  expect(text).toContain(
    'The call of user_eli@example.com failed because the upstream refused the shared key.',
  );
  expect(text).toContain('href="/dashboard/acme/servers/sales/upstream">Check upstream');
  expect(text).toContain('Application, as it calls itself');
  expect(text).toContain('href="/dashboard/acme/people/user_eli"');
  expect(text).toContain('href="/dashboard/acme/servers/sales/clients/client_claude"');
  for (const fact of ['req_1', 'a'.repeat(32), '502', 'node-1', '192.0.2.1']) {
    expect(text).toContain(fact);
  }
  const [, around = ''] = /<a href="([^"]+)"[^>]*>Other calls of/.exec(text) ?? [];
  const near = await app.get(around.replaceAll('&amp;', '&'), cookie);
  expect(sentencesOf(near.text)).toHaveLength(1);
});

test('a call: to the person who made it, its page says "you", and to others who that was', async () => {
  const { app, cookie, look } = await recorded('member', [
    { userId: 'user_dora', end: 'upstream_error', error: 'key_refused', account: 'person_key' },
  ]);
  const admin = await app.browser('user_ada', { organizationId: 'org_acme', role: 'admin' });
  const [call] = await callIds(app);
  const path = `/dashboard/acme/activity/${call?.id}`;

  const list = await look();
  const own = await app.get(path, cookie);
  const other = await app.get(path, admin.cookie);

  expect(sentencesOf(list.text)).toEqual([
    'You tried to use search of sales with client_claude Server error The upstream refused your key.',
  ]);
  expect(own.text).toContain('<p><strong>You</strong> tried to use');
  expect(own.text).toContain('Your call failed because the upstream refused your key. Enter a new');
  expect(own.text).toContain('>Your other calls within ten minutes<');
  expect(other.text).toContain(
    'The call of user_dora@example.com failed because the upstream refused the key of user_dora@example.com. The person enters',
  );
  expect(other.text).toContain('>Other calls of user_dora@example.com within ten minutes<');
});

test('a call: all rounds of a call that needed input are on its page', async () => {
  const { app, cookie } = await recorded('admin', [
    { callId: 'call_1', userId: 'user_dora' },
    { callId: 'call_1', userId: 'user_dora', end: 'tool_error' },
    { userId: 'user_dora', subject: 'another' },
  ]);
  const [first] = await callIds(app);

  const { text } = await app.get(`/dashboard/acme/activity/${first?.id}`, cookie);

  expect(text).toContain('Rounds of this call');
  expect(sentencesOf(text)).toHaveLength(2);
  expect(text).not.toContain('used another');
});

test('last calls: people, servers, clients and keys have them, for people who may see them', async () => {
  const { app, cookie, nowMs } = await recorded('admin', []);
  const { client, stores } = app.server;
  await insertKey(stores.db, newKey({ id: 'key_1', name: 'Nightly' }));
  await recordCalls(stores.db, nowMs, [
    at({ userId: 'user_eli', credential: { type: 'client', id: client.id } }),
    at({ credential: { type: 'key', id: 'key_1' } }),
  ]);
  const viewer = await app.browser('user_vic', { organizationId: 'org_acme', role: 'viewer' });
  const pages = {
    '/people/user_eli': 'person=user_eli',
    '/servers/sales': 'endpoint=srv_sales',
    [`/servers/sales/clients/${client.id}`]: `credential=${client.id}`,
    '/servers/sales/keys/key_1': 'credential=key_1',
  };

  const seen: Record<string, readonly boolean[]> = {};
  for (const [path, query] of Object.entries(pages)) {
    const { text } = await app.get(`/dashboard/acme${path}`, cookie);
    const hidden = await app.get(`/dashboard/acme${path}`, viewer.cookie);
    seen[path] = [
      sentencesOf(text).join().includes('used search of sales'),
      text.includes(`href="/dashboard/acme/activity?${query}">View all calls`),
      hidden.text.includes('View all calls'),
    ];
  }

  expect(seen).toEqual(
    Object.fromEntries(Object.keys(pages).map((path) => [path, [true, true, false]])),
  );
});

test('overview: the last failed calls say why and what to do next', async () => {
  const { app, cookie } = await recorded('admin', [
    { userId: 'user_eli', end: 'upstream_error', error: 'agent_offline' },
    { userId: 'user_eli', subject: 'went_well' },
  ]);

  const { text } = await app.get('/dashboard/acme', cookie);

  expect(sentencesOf(text)).toEqual([
    'user_eli@example.com tried to use search of sales with client_claude Server error The call of user_eli@example.com failed because the agent that reaches the server is offline. Start the agent on its computer, and check its network connection.',
  ]);
});

async function callIds({ server }: Awaited<ReturnType<typeof pageApp>>) {
  const rows = server.stores.db.selectFrom('call_record').select(['id', 'subject']);
  return rows.orderBy('id').execute();
}

test('activity: the page of a member does not say why a tool was closed to them', async () => {
  const refused = { userId: 'user_dora', end: 'refused', error: 'hidden_tool' } as const;
  const { look } = await recorded('member', [{ ...refused, subject: 'probed' }]);

  const { text } = await look('');
  expect(text).toContain('probed');
  expect(text).toContain('The server has no such tool.');
  expect(text).not.toContain('hidden_tool');
  expect((await look('?error=unknown_tool')).text).toContain('probed');
  expect((await look('?error=hidden_tool')).text).not.toContain('probed');
});

const gapTime = 'between 15 Jan, 08:00 and 15 Jan, 08:01';
const lostEnds = 'without an outcome: the queue was full when they ended';

test.each([
  ['admin', 'queue_full', `12 calls ${gapTime} are missing: the queue was full.`],
  ['member', 'queue_full', `Calls ${gapTime} may be missing: the queue was full.`],
  ['admin', 'ends_dropped', `12 calls ${gapTime} are ${lostEnds}.`],
  ['member', 'ends_dropped', `Calls ${gapTime} may be ${lostEnds}.`],
] as const)(
  'activity: the page of the %s says of a gap (%s) when it was',
  async (role, reason, words) => {
    const { app, look } = await recorded(role, [{ userId: 'user_dora' }]);
    const fromMs = Date.parse('2027-01-15T08:00:10Z');
    const gap = { organizationId: 'org_acme', node: 'node-1', reason } as const;
    await addGaps(app.server.stores.db, [{ ...gap, fromMs, untilMs: fromMs + 2000, calls: 12 }]);
    const textOf = async (query: string) =>
      (await look(query)).text.replaceAll(/<[^>]+>/g, '').replaceAll(/\s+/g, ' ');

    expect(await textOf('?from=2027-01-15&until=2027-01-15')).toContain(words);
    expect(await textOf('?from=2027-01-14&until=2027-01-14')).not.toContain('queue');
  },
);

test('activity: only the newest page is live, with the filter of its URL', async () => {
  const tools = Array.from({ length: 60 }, () => ({ subject: 'search' }));
  const { app, cookie, look } = await recorded('admin', tools);
  const streamOf = (text: string) => /data-live="([^"]*)"/.exec(text)?.[1];
  const { text: first } = await look('?tool=search');
  const [, older = ''] = /href="([^"]+)">Older</.exec(first) ?? [];

  expect(streamOf(first)).toMatch(
    /^\/dashboard\/acme\/activity\/live\?tool=search&amp;newer=[\da-f]{12}$/,
  );
  expect(streamOf((await app.get(older.replaceAll('&amp;', '&'), cookie)).text)).toBe(undefined);
  expect(streamOf((await look('?until=2026-01-01')).text)).toBe(undefined);
});

test('activity: a search that takes long shows what it found, how far back it got, and goes on from there', async () => {
  const { app, cookie, look } = await recorded('admin', []);
  const { db } = app.server.stores;
  const dayMs = 86_400_000;
  const nowMs = app.server.clock.now() * 1000;
  for (const days of [5, 3, 1]) {
    await recordCalls(db, nowMs - days * dayMs, [at({ subject: `days_${days}` })]);
  }
  // Every look at the clock is a second later, so that each search ends after its first step.
  let ms = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (ms += 1000));
  onTestFinished(() => clock.mockRestore());

  const texts: string[] = [];
  for (let next: string | undefined = '?tool=days_*&from=2001-01-01'; next !== undefined;) {
    const { text }: { text: string } =
      texts.length === 0 ? await look(next) : await app.get(next, cookie);
    texts.push(text);
    next = /data-search="50">[\s\S]*?<a href="([^"]+)">Search further back/
      .exec(text)?.[1]
      ?.replaceAll('&amp;', '&');
  }

  expect(texts.flatMap(sentencesOf).map((one) => /days_\d/.exec(one)?.[0])).toEqual([
    'days_1',
    'days_3',
    'days_5',
  ]);
  expect(texts.length).toBeGreaterThan(1);
  expect(texts[0]).toContain('Searched back to');
  expect(texts[0]).not.toContain('data-live');
  expect(texts.at(-1)).not.toContain('Searched back to');
});

test('a page of a server: it leads a viewer to their own calls', async () => {
  const { app } = await recorded('admin', []);
  const tool = { name: 'list_orders', description: '', inputSchema: {}, isReadOnly: true };
  app.upstreams.inspection = {
    outcome: 'connected',
    protocolVersion: '2025-11-25',
    tools: [{ ...tool, digest: '', text: '' }],
  };
  const { cookie } = await app.browser('user_vic', { organizationId: 'org_acme', role: 'viewer' });
  const pages = ['/servers/sales', '/servers/sales/tools'];

  const texts = await Promise.all(
    pages.map(async (path) => (await app.get(`/dashboard/acme${path}`, cookie)).text),
  );

  expect(texts[0]).toContain('/activity?endpoint=srv_sales&amp;person=user_vic"');
  expect(texts[1]).toContain('/activity?endpoint=srv_sales&amp;tool=list_orders"');
});
