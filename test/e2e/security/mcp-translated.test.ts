import { afterAll, expect, onTestFinished, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { initialize, mcpCall, modern, ownSessionId, rpc } from '#support/mcp-call';
import { modernUpstream } from '#support/upstreams/modern-upstream';
import { sessionUpstream } from '#support/upstreams/session-upstream';

const older = await sessionUpstream();
const newer = await modernUpstream('modern only');
const gateway = await gatewayUnderTest({ upstreamUrl: older.url });
await gateway.command('server', 'create', 'acme/newer', '--http-url', newer.url);
const { base, endpoint, key } = gateway;
const other = (await gateway.newKey('acme/fixture')).key;

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await older[Symbol.asyncDispose]();
  await newer[Symbol.asyncDispose]();
});

const meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': { sampling: {} },
};

/** A call of the tool that asks the caller's model, with more members of `params`. */
function ask(credential: string, more: object = {}) {
  const { headers } = modern('tools/call', { name: 'ask' });
  const params = { name: 'ask', arguments: {}, ...more, _meta: meta };
  return mcpCall(endpoint, { key: credential, headers, body: rpc('tools/call', params) });
}

/** The first subscription of a key, read event by event. */
async function listen(credential: string) {
  const gone = new AbortController();
  onTestFinished(() => gone.abort());
  const { body, headers } = modern('subscriptions/listen', {
    notifications: { toolsListChanged: true },
  });
  const response = await fetch(endpoint, {
    method: 'POST',
    body,
    headers: { ...headers, 'content-type': 'application/json', 'x-api-key': credential },
    signal: gone.signal,
  });
  const reader = response.body?.getReader();
  const next = async () => Buffer.from((await reader?.read())?.value ?? []).toString();
  return { acknowledged: await next(), next };
}

test('71: era translation: another principal’s subscription is not found', async () => {
  const before = older.sessions().length;
  const mine = await listen(key);
  const theirs = await listen(other);
  const [, listening] = older.sessions().slice(before);

  // Both callers use the same request ids: a cancellation by one of them must end only its own subscription.
  const params = { requestId: 1, _meta: meta };
  const cancel = modern('notifications/cancelled');
  await mcpCall(endpoint, {
    key: other,
    headers: cancel.headers,
    body: JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params }),
  });
  const headers = { 'mcp-session-id': listening ?? '', accept: 'text/event-stream' };
  const stolen = await mcpCall(endpoint, { key: other, method: 'GET', headers });
  const told = mine.next();
  older.announce();

  expect(mine.acknowledged).toContain('notifications/subscriptions/acknowledged');
  expect(theirs.acknowledged).toContain('notifications/subscriptions/acknowledged');
  expect(older.sessions().length).toBe(before + 2);
  expect(stolen.status).toBe(404);
  expect(await told).toContain('notifications/tools/list_changed');
});

test('71: era translation: a subscription ends when its key is revoked', async () => {
  const { id, key: shortLived } = await gateway.newKey('acme/fixture');
  const { next } = await listen(shortLived);
  const ended = next().then(
    () => true,
    () => true,
  );

  await gateway.command('key', 'revoke', id);

  expect(await ended).toBe(true);
});

test('71: era translation: a call is continued by its own principal only, and once', async () => {
  const asked = await ask(key);
  const requestState = /"requestState":"([^"]+)"/.exec(asked.text)?.[1] ?? '';
  const result = { model: 'm', role: 'assistant', content: { type: 'text', text: 'because' } };
  const retry = (credential: string, state = requestState) =>
    ask(credential, { requestState: state, inputResponses: { input: result } });

  for (const [credential, state] of [
    [other, requestState],
    [other, requestState.slice(23)],
    [key, requestState.slice(23)],
  ] as const) {
    const answer = await retry(credential, state);
    expect([answer.status, answer.errorCode]).toEqual([400, -32602]);
  }
  const answered = await retry(key);
  const again = await retry(key);

  expect(asked.text).toContain('"method":"sampling/createMessage"');
  expect(answered.text).toContain('because');
  expect([again.status, again.errorCode]).toEqual([400, -32602]);
});

test('71: era translation: a session for a modern upstream is open to its own principal only', async () => {
  const at = `${base}/mcp/acme/newer`;
  const [owner, stranger] = [
    (await gateway.newKey('acme/newer')).key,
    (await gateway.newKey('acme/newer')).key,
  ];
  const opened = await mcpCall(at, {
    key: owner,
    body: initialize(),
  });
  const headers = {
    'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
    accept: 'application/json, text/event-stream',
  };

  for (const method of ['POST', 'GET', 'DELETE']) {
    expect((await mcpCall(at, { key: stranger, method, headers })).status).toBe(404);
  }
  expect((await mcpCall(at, { key: owner, headers })).status).toBe(200);
  expect(headers['mcp-session-id']).toMatch(ownSessionId);
});
