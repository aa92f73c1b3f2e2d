import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { PlainLinks } from '#server/gateway/plain-links';
import { plainRequest } from '#server/gateway/plain-request';
import type { Upstream } from '#server/gateway/upstream';
import { stillClock } from '#support/still-clock';
import { fakeUpstream, type ScriptedAnswer } from '#support/fake-upstream';
import { bodyText } from '#support/gateway-answer';
import { legacyServer, messageOf, modernServer } from '#support/mcp-servers';
import { scannedMessage } from '#support/scanned-message';

let links: PlainLinks;
const place = 'https://mcp.example.com/';
const signal = new AbortController().signal;

beforeEach(() => {
  links = new PlainLinks(stillClock());
});

afterEach(() => links.close());

function ask(
  upstream: Upstream,
  message: string,
  { key = 'key:a srv_1', hiddenTools = [] as string[] } = {},
) {
  return plainRequest(
    { ...scannedMessage(message), upstream, key, place, hiddenTools, signal, trace: {} },
    links,
  );
}

const list = '{"jsonrpc":"2.0","id":"mine","method":"tools/list"}';

describe('a plain request is answered 200 as JSON under its own id', () => {
  test.each([
    ['by a modern upstream', modernServer],
    ['by a legacy one', legacyServer],
    ['by a legacy one without sessions', () => legacyServer({ withSessions: false })],
    ['by a legacy one that answers in events', () => legacyServer({ events: true })],
  ])('%s', async (_, server) => {
    const answer = await ask(server(), list);

    expect(answer).toMatchObject({ status: 200, headers: { 'Content-Type': 'application/json' } });
    expect(JSON.parse(await bodyText(answer))).toMatchObject({
      jsonrpc: '2.0',
      id: 'mine',
      result: {},
    });
  });
});

test('towards a modern upstream the caller’s bytes go on with _meta added', async () => {
  const upstream = modernServer();
  await ask(
    upstream,
    '{"jsonrpc":"2.0","id":1.50,"method":"tools/call","params":{"name":"é" , "n":1e400}}',
  );
  const { text, headers } = upstream.sent[1] ?? {};

  expect(text).toContain('"id":1.50,');
  expect(text).toContain(',"name":"é" , "n":1e400}}'.slice(1));
  expect(text).toContain('"io.modelcontextprotocol/protocolVersion":"2026-07-28"');
  expect(headers).toMatchObject({
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': '=?base64?w6k=?=',
  });
});

test('towards a legacy upstream two callers with one id have ids of their own', async () => {
  const upstream = legacyServer();
  const answers = await Promise.all([ask(upstream, list), ask(upstream, list)]);
  const ids = upstream.sent
    .map(messageOf)
    .filter(({ method }) => method === 'tools/list')
    .map(({ id }) => id);

  expect(new Set(ids).size).toBe(2);
  expect(ids).not.toContain('mine');
  expect((await Promise.all(answers.map(bodyText))).map((body) => JSON.parse(body).id)).toEqual([
    'mine',
    'mine',
  ]);
});

test('a session that the upstream forgot is made anew, and the request sent once more', async () => {
  const upstream = legacyServer();
  await ask(upstream, list);
  upstream.forgetSessions();
  const answer = await ask(upstream, list);

  expect(answer.status).toBe(200);
  expect(upstream.sent.at(-1)?.headers).toMatchObject({ 'mcp-session-id': 'session-2' });
});

test('a request that is not found in a new session either is refused, not sent for ever', async () => {
  const forgetful = legacyServer();
  const upstream = fakeUpstream(async (request): Promise<ScriptedAnswer> => {
    if (messageOf(request).method === 'tools/list') return { status: 404, mediaType: '' };
    const { body, ...rest } = await forgetful.send({ ...request, body: Buffer.from(request.text) });
    return { ...rest, text: body };
  });

  await expect(ask(upstream, list)).rejects.toMatchObject({ code: 'upstream_failed' });
  expect(upstream.sent.map(messageOf).filter(({ method }) => method === 'tools/list')).toHaveLength(
    2,
  );
});

test('a plain notification is 202', async () => {
  const message = '{"jsonrpc":"2.0","method":"notifications/progress"}';

  expect(await ask(legacyServer(), message)).toEqual({ status: 202, headers: {} });
});

test('an error in JSON-RPC is answered 200, whatever status the upstream gave it', async () => {
  const error = '{"jsonrpc":"2.0","id":"mine","error":{"code":-32602,"message":"no"}}';
  const upstream = fakeUpstream((request) =>
    messageOf(request).method === 'server/discover'
      ? { text: '{"jsonrpc":"2.0","id":1,"result":{}}' }
      : { status: 400, text: error },
  );
  const answer = await ask(upstream, list);

  expect(answer.status).toBe(200);
  expect(await bodyText(answer)).toBe(error);
});

test.each([
  ['is no response', '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'],
  ['is no JSON-RPC', '{"result":{}}'],
  ['names its id twice', '{"jsonrpc":"2.0","id":1,"id":1,"result":{}}'],
])('an answer of a legacy upstream that %s is refused', async (_, text) => {
  const legacy = legacyServer();
  const upstream = fakeUpstream(async (request): Promise<ScriptedAnswer> => {
    if (messageOf(request).method === 'tools/list') return { text };
    const { body, ...rest } = await legacy.send({ ...request, body: Buffer.from(request.text) });
    return { ...rest, text: body };
  });

  await expect(ask(upstream, list)).rejects.toMatchObject({ code: 'upstream_failed' });
});

test.each([
  ['modern', 'server/discover'],
  ['legacy', 'initialize'],
])('hidden tools are left out of the list of a %s upstream', async (_, hello) => {
  const tools = [{ name: 'read' }, { name: 'drop' }];
  const upstream = fakeUpstream((request): ScriptedAnswer => {
    if (request.method === 'DELETE') return { status: 204 };
    const { id, method } = messageOf(request);
    if (method === 'tools/list')
      return { text: JSON.stringify({ jsonrpc: '2.0', id, result: { tools } }) };
    if (method !== hello) return { status: method === 'server/discover' ? 404 : 202 };
    return { text: '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}' };
  });
  const answer = await ask(upstream, list, { hiddenTools: ['drop'] });

  expect(JSON.parse(await bodyText(answer))).toEqual({
    jsonrpc: '2.0',
    id: 'mine',
    result: { tools: [{ name: 'read' }] },
  });
});
