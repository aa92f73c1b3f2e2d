import { DatabaseSync } from 'node:sqlite';
import { join } from 'node:path';

import { afterAll, beforeEach, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { mcpCall } from '#support/mcp-call';
import { recordingUpstream } from '#support/upstreams/recording-upstream';

const upstream = await recordingUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
const { base, endpoint, key } = gateway;

beforeEach(() => void upstream.requests.splice(0));

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

/** The database without a table that every admission reads, as if it were damaged, while `act` runs. */
async function whileUnreadable(act: () => Promise<void>): Promise<void> {
  using db = new DatabaseSync(join(gateway.dataDir, 'latchkey.db'), { timeout: 5000 });
  db.exec('alter table endpoint rename to endpoint_away');
  try {
    await act();
  } finally {
    db.exec('alter table endpoint_away rename to endpoint');
  }
}

test('89: health probes: they report that the server is alive and ready, and nothing else', async () => {
  const probes = ['/healthz', '/readyz'].map(async (path) => fetch(base + path));
  const answers = await Promise.all(probes);
  const names = answers.flatMap(({ headers }) => [...headers.keys()]);

  expect(await Promise.all(answers.map((answer) => answer.text()))).toEqual([
    '{"status":"ok"}',
    '{"status":"ready"}',
  ]);
  expect(new Set(names)).toEqual(
    new Set(['connection', 'content-length', 'content-type', 'date', 'keep-alive', 'x-request-id']),
  );
});

test.each([
  '/metrics',
  '/debug',
  '/debug/pprof',
  '/status',
  '/health',
  '/version',
  '/env',
  '/.env',
])('89: nothing is served at %s, for anyone', async (path) => {
  const nowhere = await (await fetch(`${base}/nothing-of-the-kind`)).text();
  const asked = [{}, { 'x-api-key': key }, { 'x-forwarded-for': '127.0.0.1' }];
  for (const headers of asked) {
    const answer = await fetch(base + path, { headers });
    expect([answer.status, await answer.text()]).toEqual([404, nowhere]);
  }
});

test('90: unreadable database: every MCP call is refused, even of callers admitted a moment before', async () => {
  const token = await gateway.newToken('acme/fixture', 'mcp:tools:read');
  const everybody = [{ key }, { token }];
  const statuses = async () =>
    Promise.all(everybody.map(async (who) => (await mcpCall(endpoint, who)).status));
  expect(await statuses()).toEqual([200, 200]);
  upstream.requests.splice(0);

  await whileUnreadable(async () => {
    const answers = await Promise.all(everybody.map((who) => mcpCall(endpoint, who)));
    expect(answers.map(({ status }) => status)).toEqual([503, 503]);
    for (const { text } of answers)
      expect(text).not.toMatch(/sqlite|no such|endpoint|latchkey\.db/i);
  });

  expect(upstream.calls()).toEqual([]);
  expect(await statuses()).toEqual([200, 200]);
});

test('90: unreadable database: no token is issued, and the error reveals nothing of the cause', async () => {
  const made = await gateway.command(
    'client',
    'create',
    'acme/fixture',
    '--name',
    'late',
    '--scope',
    'mcp:tools:read',
  );
  const form = new URLSearchParams({
    grant_type: 'client_credentials',
    client_id: String(made['client_id']),
    client_secret: String(made['client_secret']),
  });
  const ask = () => fetch(`${base}/api/oauth/token`, { method: 'POST', body: form });

  await whileUnreadable(async () => {
    const answer = await ask();
    const text = await answer.text();
    expect([answer.status, JSON.parse(text).error]).toEqual([503, 'temporarily_unavailable']);
    expect(text).not.toMatch(/sqlite|no such|endpoint|latchkey\.db/i);
  });

  expect((await ask()).status).toBe(200);
});
