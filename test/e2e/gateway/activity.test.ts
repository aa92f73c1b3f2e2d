import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, expect, onTestFinished, test, vi } from 'vitest';

import { failureOf } from '#server/activity/sentences';
import { searchCalls } from '#server/db/find-calls';
import type { CallRecord } from '#server/model/calls';
import { gatewayUnderTest } from '#support/gateway-under-test';
import { mcpCall, modern, rpc } from '#support/mcp-call';
import { patient } from '#support/patient';
import { modernOnlyUpstream } from '#support/upstreams/modern-only-upstream';
import {
  type Answer,
  bothErasAnswer,
  recordingUpstream,
  sendJson,
} from '#support/upstreams/recording-upstream';

const upstream = await recordingUpstream();
const modernUpstream = await modernOnlyUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
await gateway.command('server', 'create', 'acme/modern', '--http-url', modernUpstream.url);
const stores = await gateway.openStores();

afterAll(async () => {
  await stores.close();
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
  await modernUpstream.close();
});

/** The recorded calls of a credential, oldest first, once there are as many. */
async function recordedOf(keyId: string, count: number): Promise<readonly CallRecord[]> {
  const { id: organizationId } = await stores.db
    .selectFrom('organization')
    .select('id')
    .where('name', '=', 'acme')
    .executeTakeFirstOrThrow();
  return vi.waitFor(async () => {
    const { calls } = await searchCalls(stores.db, {
      organizationId,
      filter: { credential: keyId },
      limit: 100,
      watermarkMs: Date.now() + 1000,
    });
    expect(calls).toHaveLength(count);
    return calls.toReversed();
  }, patient);
}

const answerWith =
  (member: string): Answer =>
  ({ body }, response) => {
    const id = /"id"\s*:\s*(\d+)/.exec(body.toString())?.[1] ?? 'null';
    sendJson(response, `{"jsonrpc":"2.0","id":${id},${member}}`);
  };
const versions = { 'mcp-protocol-version': '2025-06-18' };
const tool = (name: string) => rpc('tools/call', { name, arguments: { secret: 'kept out' } });

test('activity: each outcome of a call is one row that says who called what', async () => {
  const { key, id } = await gateway.newKey('acme/fixture');
  const call = (body: string, headers: Record<string, string> = {}) =>
    mcpCall(gateway.endpoint, {
      key,
      body,
      headers: { ...versions, 'user-agent': 'curl/8', ...headers },
    });

  upstream.answer = answerWith('"result":{"content":[]}');
  await call(tool('echo'), { 'x-request-id': 'first' });
  upstream.answer = answerWith('"result":{"content":[],"isError":true}');
  await call(tool('failing'));
  upstream.answer = answerWith('"error":{"code":-32602,"message":"no such tool"}');
  await call(tool('unknown'));
  upstream.answer = (_, response) => void response.writeHead(500).end();
  await call(tool('broken'));
  upstream.answer = answerWith('"result":{"contents":[]}');
  await call(rpc('resources/read', { uri: 'file:///a.txt?token=hidden' }));
  await call(rpc('tools/list'));
  await call('{"jsonrpc":"2.0","method":"notifications/initialized"}');
  await call('{');

  const rows = await recordedOf(id, 6);

  expect(
    rows.map(({ method, subject, end, error, status }) => [method, subject, end, error, status]),
  ).toEqual([
    ['tools/call', 'echo', 'ok', undefined, 200],
    ['tools/call', 'failing', 'tool_error', undefined, 200],
    ['tools/call', 'unknown', 'protocol_error', '-32602', 200],
    ['tools/call', 'broken', 'upstream_error', 'upstream_server_error', 502],
    ['resources/read', 'file:///a.txt?…', 'ok', undefined, 200],
    [undefined, undefined, 'refused', 'not_json', 400],
  ]);
  expect(rows[0]).toMatchObject({
    times: 1,
    era: 'legacy',
    endpoint: { name: 'fixture' },
    target: { name: 'fixture' },
    credential: { type: 'key', id, name: 'a key' },
    person: undefined,
    application: { text: 'curl/8', source: 'user_agent' },
    address: '127.0.0.1',
    account: 'none',
    bytesIn: tool('echo').length,
  });
  expect(rows[0]?.bytesOut).toBeGreaterThan(20);
  expect(JSON.stringify(rows)).not.toContain('hidden');
  expect(JSON.stringify(rows)).not.toContain('kept out');
});

test.each([
  [401, 'upstream_refused_credentials'],
  [403, 'upstream_refused_credentials'],
  [405, 'upstream_method_not_allowed'],
  [307, 'upstream_redirected'],
  [429, 'upstream_rate_limited'],
  [503, 'upstream_busy'],
  [500, 'upstream_server_error'],
])('activity: a server that answers HTTP %i is a failure of its own', async (status, code) => {
  const { key, id } = await gateway.newKey('acme/fixture');
  upstream.answer = (_, response) => void response.writeHead(status).end();
  await mcpCall(gateway.endpoint, { key, ...modern('tools/call', { name: 'echo' }) });

  expect(await recordedOf(id, 1)).toMatchObject([
    { end: 'upstream_error', error: code, account: 'none', subject: 'echo' },
  ]);
});

test('activity: a refused shared key is told from a call that was refused before it was sent', async () => {
  const file = join(gateway.dataDir, 'shared-key');
  writeFileSync(file, 'a-shared-key-of-the-organization\n');
  const header = ['--http-header-file', `x-api-key=${file}`];
  await gateway.command('server', 'create', 'acme/shared', '--http-url', upstream.url, ...header);
  const { key, id } = await gateway.newKey('acme/shared', '--scope', 'mcp:tools:execute');
  const url = `${gateway.base}/mcp/acme/shared`;
  upstream.answer = (_, response) => void response.writeHead(401).end();
  await mcpCall(url, { key, ...modern('tools/call', { name: 'echo' }) });
  await mcpCall(url, { key, ...modern('prompts/get', { name: 'greet' }) });

  const rows = await recordedOf(id, 2);

  expect(rows.map(({ end, error, account }) => [end, error, account])).toEqual([
    ['upstream_error', 'upstream_refused_credentials', 'fixed_headers'],
    ['refused', 'insufficient_scope', 'none'],
  ]);
  expect(rows[0] && failureOf(rows[0])?.because).toBe('the upstream refused the shared key');
});

test('activity: a caller without the scope is refused in one row a minute, with the number of calls', async () => {
  const { key, id } = await gateway.newKey('acme/fixture', '--scope', 'mcp:tools:read');
  for (let times = 0; times < 5; times += 1) {
    await mcpCall(gateway.endpoint, { key, body: tool('echo'), headers: versions });
  }

  await vi.waitFor(async () => {
    const rows = await recordedOf(id, 1);
    expect(rows[0]).toMatchObject({ end: 'refused', error: 'insufficient_scope', times: 5 });
  }, patient);
});

test('activity: a suspended credential is refused in a row, but an unknown one or one of another server is not', async () => {
  await gateway.command('server', 'create', 'acme/paused', '--http-url', upstream.url);
  const { key, id } = await gateway.newKey('acme/paused');
  const other = await gateway.newKey('acme/fixture');
  await gateway.command('server', 'disable', 'acme/paused');
  const url = `${gateway.base}/mcp/acme/paused`;
  for (const credential of [other.key, `${key.slice(0, -4)}AAAA`, key]) {
    await mcpCall(url, { key: credential, body: tool('echo'), headers: versions });
  }

  const rows = await recordedOf(id, 1);

  expect(rows).toMatchObject([
    {
      end: 'refused',
      error: 'server_disabled',
      status: 401,
      method: undefined,
      endpoint: { name: 'paused' },
      credential: { type: 'key', id, name: 'a key' },
    },
  ]);
  expect(await recordedOf(other.id, 0)).toEqual([]);
});

test('activity: a session has the name of its application, and a modern caller names itself in each request', async () => {
  const { key, id } = await gateway.newKey('acme/modern');
  const url = new URL(`${gateway.base}/mcp/acme/modern`);
  const client = new Client({ name: 'Claude Desktop', version: '1.2' }, { capabilities: {} });
  await client.connect(
    new StreamableHTTPClientTransport(url, { requestInit: { headers: { 'x-api-key': key } } }),
  );
  await client.callTool({ name: 'progress', arguments: { steps: 1 } });
  await client.close();
  const request = modern('tools/call', { name: 'progress', arguments: { steps: 1 } });
  const body = request.body.replace(
    '"_meta":{',
    '"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"Cursor","version":"3"},',
  );
  await mcpCall(url.href, { key, ...request, body });

  const rows = await recordedOf(id, 2);

  expect(
    rows.map(({ era, application, end, subject }) => [era, application?.text, end, subject]),
  ).toEqual([
    ['legacy', 'Claude Desktop 1.2', 'ok', 'progress'],
    ['modern', 'Cursor 3', 'ok', 'progress'],
  ]);
});

test('activity: the rounds of a call that needs input have one id, with and without a state of the upstream', async () => {
  const { key, id } = await gateway.newKey('acme/fixture');
  const ask = (params: Record<string, unknown>) =>
    mcpCall(gateway.endpoint, { key, ...modern('tools/call', params) });
  for (const state of ['', ',"requestState":"theirs"']) {
    upstream.answer = answerWith(
      `"result":{"resultType":"input_required","inputRequests":{}${state}}`,
    );
    const asked = await ask({ name: 'book' });
    upstream.answer = answerWith('"result":{"resultType":"complete","content":[]}');
    const requestState = /"requestState":"([^"]+)"/.exec(asked.text)?.[1] ?? '';
    const done = await ask({ name: 'book', requestState, inputResponses: {} });

    expect(done.status).toBe(200);
    const sent = upstream.requests.at(-1)?.body.toString() ?? '';
    expect(sent.includes('requestState')).toBe(state !== '');
    expect(sent.includes('"requestState":"theirs"')).toBe(state !== '');
  }

  const rows = await recordedOf(id, 4);

  const ids = rows.map(({ callId }) => callId);
  expect([ids[0], ids[2]]).toEqual([ids[1], ids[3]]);
  expect(ids[0]).not.toBe(ids[2]);
  expect(rows.map(({ subject, end }) => [subject, end])).toEqual(
    Array.from({ length: 4 }, () => ['book', 'ok']),
  );
});

test('activity: a task is one call from its start to its end, and rows hold no id of it', async () => {
  const { key, id } = await gateway.newKey('acme/fixture');
  const ask = (body: string) => mcpCall(gateway.endpoint, { key, body, headers: versions });
  upstream.answer = answerWith('"result":{"task":{"taskId":"hidden-1","status":"working"}}');
  const begun = await ask(rpc('tools/call', { name: 'slow', task: {} }));
  const taskId = /"taskId":"([^"]+)"/.exec(begun.text)?.[1] ?? '';
  for (const status of ['working', 'failed']) {
    upstream.answer = answerWith(`"result":{"taskId":"hidden-1","status":"${status}"}`);
    await ask(rpc('tasks/get', { taskId }));
  }
  upstream.answer = answerWith('"result":{"content":[]}');
  await ask(rpc('tasks/result', { taskId }));

  const rows = await recordedOf(id, 3);

  expect(rows.map(({ method, subject, end }) => [method, subject, end])).toEqual([
    ['tools/call', 'slow', 'ok'],
    ['tasks/get', undefined, 'tool_error'],
    ['tasks/result', undefined, 'ok'],
  ]);
  expect(new Set(rows.map(({ callId }) => callId)).size).toBe(1);
  expect(JSON.stringify(rows)).not.toContain('hidden');
});

test('activity: a caller that leaves before the answer has cancelled the call', async () => {
  const { key, id } = await gateway.newKey('acme/fixture');
  upstream.answer = (request, response) => {
    if (!request.body.includes('slow')) return bothErasAnswer(request, response);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(': waiting\n\n');
  };
  const leaving = new AbortController();
  const left = fetch(gateway.endpoint, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-api-key': key,
      ...modern('tools/call', { name: 'slow' }).headers,
    },
    body: modern('tools/call', { name: 'slow' }).body,
    signal: leaving.signal,
  }).catch(() => undefined);
  await vi.waitFor(
    () => expect(upstream.requests.at(-1)?.body.toString()).toContain('slow'),
    patient,
  );
  await pause(50);
  leaving.abort();
  await left;

  expect(await recordedOf(id, 1)).toMatchObject([{ subject: 'slow', end: 'cancelled' }]);
});

test('activity: where calls must be recorded, a call that was killed with the server remains as unknown', async () => {
  await using careful = await gatewayUnderTest({
    upstreamUrl: upstream.url,
    start: ['--call-log', 'required'],
  });
  upstream.answer = answerWith('"result":{"content":[]}');
  await mcpCall(careful.endpoint, { key: careful.key, body: tool('echo'), headers: versions });
  upstream.answer = () => undefined;
  const body = tool('killed');
  const lost = mcpCall(careful.endpoint, { key: careful.key, body, headers: versions });
  const gone = lost.then(
    () => 'answered',
    () => 'gone',
  );
  await vi.waitFor(() => expect(upstream.requests.at(-1)?.body.toString()).toBe(body), patient);
  process.kill(careful.pid, 'SIGKILL');
  expect(await gone).toBe('gone');

  const own = await careful.openStores();
  onTestFinished(() => own.close());
  const rows = await own.db.selectFrom('call_record').selectAll().orderBy('id').execute();
  expect(rows.map(({ subject, outcome }) => [subject, outcome]).at(-1)).toEqual([
    'killed',
    'unknown',
  ]);
});
