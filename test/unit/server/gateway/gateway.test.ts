import { afterEach, beforeEach, describe, expect, test, vi, onTestFinished } from 'vitest';

import { allScopes } from '#server/model/scopes';
import { mintSecret } from '#server/secrets/secrets';
import type { AdmissionStore } from '#server/db/admissions';
import { EraAdapters } from '#server/gateway/era-adapters';
import { Gateway } from '#server/gateway/gateway';
import type { Presentation } from '#server/gateway/filters';
import type { GatewayAnswer, GatewayRequest } from '#server/gateway/request';
import type { Upstream, UpstreamRequest } from '#server/gateway/upstream';
import { fakeMac } from '#support/fake-mac';
import {
  chunksOf,
  eventStream,
  fakeUpstream,
  type ScriptedAnswer,
  upstreamAnswer,
} from '#support/fake-upstream';
import { bodyText } from '#support/gateway-answer';
import { modern } from '#support/mcp-call';
import { discoverAnswer, legacyServer, messageOf, modernServer } from '#support/mcp-servers';
import { ofNoPerson, someServer } from '#support/some-admission';
import { stillClock } from '#support/still-clock';
import { patient } from '#support/patient';

const base = 'https://latchkey.example.com';
const key = mintSecret('mcp_');
const byKey = vi.fn<AdmissionStore['byKey']>();
const byPerson = vi.fn<AdmissionStore['byPerson']>();
const changeToken = vi.fn<AdmissionStore['changeToken']>();
const used = vi.fn();
const refused = vi.fn();
const note = vi.fn();
const readBody = vi.fn<GatewayRequest['readBody']>();
let upstream: Upstream;
let gateway: Gateway;
let presentation: Presentation | undefined;

beforeEach(() => {
  const clock = stillClock();
  byKey.mockReset().mockResolvedValue({
    endpoint: someServer(),
    toolCaller: ofNoPerson,
    keyId: 'key_a',
    scopes: ['mcp:tools:read'],
  });
  changeToken.mockReset().mockReturnValue('once');
  for (const spy of [byPerson, used, note, refused, readBody]) spy.mockReset();
  upstream = legacyServer();
  presentation = undefined;
  gateway = new Gateway({
    base,
    clock,
    used,
    refused,
    note,
    admissions: {
      byKey,
      byClient: () => Promise.resolve(undefined),
      byPerson,
      byMember: () => Promise.resolve(undefined),
      changeToken,
    },
    tokens: {
      issue: () => expect.fail('not here'),
      verify: () => Promise.resolve({ outcome: 'invalid', reason: 'not here' }),
    },
    endpointUrl: (serverPath) => `${base}/mcp/${serverPath}`,
    mac: fakeMac,
    upstreamOf: () => upstream,
    pinned: (answer) => Promise.resolve(answer),
    left: () => {},
    eras: new EraAdapters(clock),
    presentationOf: () => Promise.resolve(presentation),
    isAllowedOrigin: (origin) => origin === undefined,
  });
});

afterEach(() => gateway.close());

const list = '{"jsonrpc":"2.0","id":7,"method":"tools/list"}';

/** Sends a plain request with the key; `but` changes it. */
function ask(message = list, but: Partial<GatewayRequest> = {}) {
  readBody.mockResolvedValue(Buffer.from(message));
  return gateway.handle({
    id: 'request-1',
    method: 'POST',
    organization: 'acme',
    server: 'sales',
    headers: { 'content-type': 'application/json' },
    rawHeaders: ['X-API-Key', key],
    readBody,
    gone: new AbortController().signal,
    ...but,
  });
}

test('a plain request with a key is answered, and counts as a use of the key', async () => {
  const answer = await ask();

  expect(answer.status).toBe(200);
  expect(JSON.parse(await bodyText(answer))).toMatchObject({ id: 7, result: {} });
  expect(used).toHaveBeenCalledExactlyOnceWith({ type: 'key', id: 'key_a' }, stillClock().now());
  expect(refused).not.toHaveBeenCalled();
});

describe('no credential is looked up and no body read for', () => {
  test.each<[string, number, Partial<GatewayRequest>]>([
    ['a page of another origin', 403, { headers: { origin: 'https://evil.example' } }],
    ['a GET without a session', 405, { method: 'GET' }],
    ['a DELETE without a session', 405, { method: 'DELETE' }],
    ['a PUT, even in a session', 405, { method: 'PUT', headers: { 'mcp-session-id': 's' } }],
    ['no credential', 401, { rawHeaders: [] }],
    ['two credentials', 400, { rawHeaders: ['X-API-Key', key, 'X-API-Key', key] }],
  ])('%s: %i', async (_, status, but) => {
    expect((await ask(list, but)).status).toBe(status);
    expect(byKey).not.toHaveBeenCalled();
    expect(readBody).not.toHaveBeenCalled();
    expect(refused).toHaveBeenCalledTimes(1);
  });
});

test('107: a caller whose open bodies take too much memory gets 429, and is served again when they are gone', async () => {
  const bytes = 4 * 1024 * 1024;
  const body = Promise.withResolvers<Buffer>();
  const open: Partial<GatewayRequest> = {
    readBody: (arrived) => (arrived?.(bytes), body.promise),
  };
  const waiting = Array.from({ length: 16 }, () => ask(list, open));
  const tooMany = await ask(list, open);
  const short = await ask(list, { readBody: (arrived) => (arrived?.(100), Buffer.from(list)) });
  body.resolve(Buffer.from(list));
  const statuses = (await Promise.all(waiting)).map(({ status }) => status);

  expect([tooMany.status, short.status]).toEqual([429, 200]);
  expect(statuses).toEqual(Array(16).fill(200));
  expect((await ask(list, open)).status).toBe(200);
});

test.each([
  ['the task of a plain call', 'taskId', 'tasks/get', legacyServer],
  ['the state of a modern call', 'requestState', 'tools/call', modernServer],
] as const)('%s whose answer has megabytes is accepted again', async (_, name, then, serverOf) => {
  const text = 'x'.repeat(3 * 1024 * 1024);
  const received: string[] = [];
  const others = serverOf();
  byKey.mockResolvedValue({
    endpoint: someServer(),
    toolCaller: ofNoPerson,
    keyId: 'key_a',
    scopes: [...allScopes],
  });
  upstream = {
    send: (request) => {
      const { method = '', id } = messageOf({ text: Buffer.from(request.body ?? []).toString() });
      if (method !== 'tools/call' && method !== then) return others.send(request);
      received.push(Buffer.from(request.body ?? []).toString());
      const answer = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":"${text}","${name}":"t-1"}}`;
      return Promise.resolve(upstreamAnswer({ text: chunksOf(Buffer.from(answer)) }));
    },
  };
  const send = async (method: string, params: Record<string, unknown>) => {
    if (serverOf === legacyServer)
      return ask(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }));
    const { body, headers } = modern(method, params);
    return ask(body, { headers: lowerCase(headers) });
  };
  const first = await bodyText(await send('tools/call', { name: 'a', arguments: {} }));
  const value = new RegExp(`"${name}":"([^"]+)"`).exec(first)?.[1];
  const second = await send(then, { name: 'a', arguments: {}, [name]: value });

  expect(value).toMatch(/^[\w-]{22}\..*t-1$/);
  expect(second.status).toBe(200);
  expect(received[1]).toContain(`"${name}":"t-1"`);
  await bodyText(second);
});

test('107: responses that callers have not received take 64 MiB of memory, and the rest get 429', async () => {
  const mib = 1024 * 1024;
  const result = (text: string) =>
    upstreamAnswer({
      text: Buffer.from(
        `{"jsonrpc":"2.0","id":${/"id":([^,]+)/.exec(text)?.[1]},"result":{"text":"${'x'.repeat(4 * mib)}"}}`,
      ),
    });
  const plain = legacyServer();
  upstream = {
    send: (request) => {
      const text = Buffer.from(request.body ?? []).toString();
      return text.includes('tools/list') ? Promise.resolve(result(text)) : plain.send(request);
    },
  };
  const answers = await Promise.all(Array.from({ length: 40 }, () => ask()));
  const held = answers.filter(({ status }) => status === 200);
  const late = answers.filter(({ status }) => status === 429);
  const texts = await Promise.all(late.map(bodyText));

  expect([held.length, late.length]).toEqual([16, 24]);
  expect(held.every(({ sent }) => sent !== undefined)).toBe(true);
  expect(late[0]?.headers).not.toHaveProperty('Retry-After');
  expect(texts[0]).toContain("the responses of this caller's open requests exceed 67108864 bytes");

  held[0]?.sent?.();
  held[0]?.sent?.();
  expect((await ask()).status).toBe(200);
  expect((await ask()).status).toBe(429);
});

test('the body of a caller that is not admitted is never read', async () => {
  byKey.mockResolvedValue(undefined);

  expect((await ask()).status).toBe(401);
  expect(readBody).not.toHaveBeenCalled();
  expect(used).not.toHaveBeenCalled();
});

describe('nothing reaches the upstream of', () => {
  test.each([
    ['a message that is not JSON', '{', 400, -32700],
    ['a batch', '[]', 400, -32600],
    [
      'a message with a member twice',
      '{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}',
      400,
      -32600,
    ],
    ['a method without its scope', '{"jsonrpc":"2.0","id":7,"method":"tools/call"}', 403, -32003],
    [
      'a method that nobody knows',
      '{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}',
      200,
      -32601,
    ],
    ['an answer to nothing', '{"jsonrpc":"2.0","id":7,"result":{}}', 400, -32600],
  ])('%s', async (_, message, status, code) => {
    const silent = fakeUpstream(() => ({}));
    upstream = silent;
    const answer = await ask(message);

    expect(answer.status).toBe(status);
    expect(JSON.parse(await bodyText(answer))).toMatchObject({ error: { code } });
    expect(silent.sent).toEqual([]);
  });
});

test('an unknown session is not found, and nothing is read of another media type', async () => {
  const headers = { 'content-type': 'application/json' };

  expect((await ask(list, { headers: { ...headers, 'mcp-session-id': 'unknown' } })).status).toBe(
    404,
  );
  expect((await ask(list, { headers: { 'content-type': 'text/plain' } })).status).toBe(415);
  expect((await ask(list, { headers: { ...headers, accept: 'text/html' } })).status).toBe(406);
});

test('a store that fails is 503 and an unexpected error 500, both in the log', async () => {
  byKey.mockRejectedValueOnce(new Error('disk full'));

  expect((await ask()).status).toBe(503);

  upstream = { send: () => Promise.reject(new TypeError('a bug')) };
  const answer = await ask();

  expect(answer.status).toBe(500);
  expect(await bodyText(answer)).not.toContain('a bug');
  expect(refused.mock.calls.map(([{ code }]) => code)).toEqual(['unavailable', 'fault']);
});

test('notifications/cancelled ends a plain request that is in progress, also at the upstream', async () => {
  let underWay = () => {};
  const waiting = new Promise<void>((resolve) => (underWay = resolve));
  let signal: AbortSignal | undefined;
  upstream = fakeUpstream((request) => {
    if (messageOf(request).method !== 'tools/list') return { text: discoverAnswer };
    signal = request.signal;
    underWay();
    return new Promise((_, reject) => {
      request.signal.addEventListener('abort', () => reject(request.signal.reason));
    });
  });
  const answering = ask();
  await waiting;
  const cancelled = await ask(
    '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}',
  );

  expect(cancelled.status).toBe(202);
  expect(await bodyText(await answering)).toContain('the request was cancelled');
  expect(signal?.aborted).toBe(true);
});

describe('a call is counted when it ends', () => {
  const upstreamAnswers = (text: string) => {
    upstream = fakeUpstream(({ text: sent }) =>
      sent.includes('tools/call') ? { text } : { text: discoverAnswer },
    );
  };
  const call = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"query"}}';
  const noted = {
    serverPath: 'acme/sales',
    serverId: 'srv_sales',
    targetId: 'target_of_srv_sales',
    credential: { type: 'key', id: 'key_a' },
    method: 'tools/call',
    tool: 'query',
    ms: expect.any(Number),
  };

  beforeEach(() => {
    byKey.mockResolvedValue({
      endpoint: someServer(),
      toolCaller: ofNoPerson,
      keyId: 'key_a',
      scopes: [...allScopes],
    });
  });

  test.each([
    ['ok', '{"jsonrpc":"2.0","id":7,"result":{"content":[]}}', undefined],
    ['tool-error', '{"jsonrpc":"2.0","id":7,"result":{"content":[],"isError":true}}', 'tool_error'],
    ['tool-error', '{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}', '-32602'],
  ])('as %s for %s', async (outcome, text, errorType) => {
    upstreamAnswers(text);
    await bodyText(await ask(call));

    expect(note).toHaveBeenCalledExactlyOnceWith({ ...noted, outcome, errorType });
  });

  test('as an upstream error if the upstream does not answer', async () => {
    upstream = fakeUpstream(() => ({ status: 500 }));
    await ask(call);

    expect(note).toHaveBeenCalledExactlyOnceWith({
      ...noted,
      outcome: 'upstream-error',
      errorType: '-32000',
    });
  });

  test('as refused if the tool is hidden', async () => {
    const server = someServer({ target: { hiddenTools: ['query'] } });
    byKey.mockResolvedValue({
      endpoint: server,
      toolCaller: ofNoPerson,
      keyId: 'key_a',
      scopes: [...allScopes],
    });
    await ask(call);

    expect(note).toHaveBeenCalledExactlyOnceWith({
      ...noted,
      outcome: 'refused',
      errorType: '-32602',
    });
  });

  test('as an error if the caller made a mistake', async () => {
    await ask('{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":7}}');

    const { calls } = note.mock;
    expect(calls.map(([{ outcome }]) => outcome)).toEqual(['tool-error']);
  });

  test('and no other message is: no notification, no stream, no caller that was not admitted', async () => {
    await bodyText(await ask('{"jsonrpc":"2.0","method":"notifications/initialized"}'));
    byKey.mockResolvedValue(undefined);
    await ask(call);

    expect(note).not.toHaveBeenCalled();
  });
});

describe('a person who is signed in at the dashboard', () => {
  const ofDana = { proved: { type: 'person', userId: 'user_dana' } as const, rawHeaders: [] };

  test('is admitted with the current rights of their role, and counted as a person', async () => {
    byPerson.mockResolvedValue({
      endpoint: someServer(),
      toolCaller: ofNoPerson,
      scopes: ['mcp:tools:read'],
    });
    const listed = await ask(list, ofDana);
    const called = await ask('{"jsonrpc":"2.0","id":8,"method":"tools/call"}', ofDana);

    expect([listed.status, called.status]).toEqual([200, 403]);
    expect(byPerson).toHaveBeenCalledWith({
      organization: 'acme',
      server: 'sales',
      userId: 'user_dana',
    });
    expect(used).not.toHaveBeenCalled();
    expect(note).toHaveBeenCalledWith(
      expect.objectContaining({
        credential: { type: 'person', id: 'user_dana' },
        userId: 'user_dana',
        outcome: 'ok',
      }),
    );
  });

  test('is not counted for what a page reads to show it', async () => {
    const scopes = ['mcp:tools:read'] as const;
    byPerson.mockResolvedValue({ endpoint: someServer(), toolCaller: ofNoPerson, scopes });
    const answers = [await ask(list, { ...ofDana, isForPage: true })];
    answers.push(
      await ask('{"jsonrpc":"2.0","id":8,"method":"tools/call"}', { ...ofDana, isForPage: true }),
    );

    expect(answers.map(({ status }) => status)).toEqual([200, 403]);
    expect(note).not.toHaveBeenCalled();
  });

  test('is refused like any other caller where they are not a member', async () => {
    byPerson.mockResolvedValue(undefined);

    expect((await ask(list, ofDana)).status).toBe(401);
  });

  test('is never taken from a header', async () => {
    await ask(list, { rawHeaders: ['person', 'user_dana'] });

    expect(byPerson).not.toHaveBeenCalled();
  });
});

test('the response to our own request to connect an account does not reach the upstream', async () => {
  byKey.mockResolvedValue({
    endpoint: someServer(),
    toolCaller: ofNoPerson,
    keyId: 'key_a',
    scopes: allScopes,
  });
  const server = fakeUpstream(() => ({
    text: '{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}',
  }));
  upstream = server;
  const inputResponses = { 'latchkey-connect': { action: 'accept' }, theirs: {} };
  const { body, headers } = modern('tools/call', { name: 't', arguments: {}, inputResponses });
  const answer = await ask(body, { headers: lowerCase(headers) });

  expect(answer.status).toBe(200);
  expect(server.sent.at(-1)?.text).toContain('"inputResponses":{"theirs":{}}');
});

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  const own = { 'content-type': 'application/json', ...headers };
  return Object.fromEntries(
    Object.entries(own).map(([name, value]) => [name.toLowerCase(), value] as const),
  );
}

test('at a server with limits a GET stream counts as a stream of its caller', async () => {
  const server = someServer({ limits: { concurrentCalls: 1 } });
  byKey.mockResolvedValue({
    endpoint: server,
    toolCaller: ofNoPerson,
    keyId: 'key_a',
    scopes: ['mcp:tools:read'],
  });
  upstream = fakeUpstream(({ method }) => {
    if (method === 'GET') return { mediaType: 'text/event-stream', text: new ReadableStream() };
    return { text: '{"jsonrpc":"2.0","id":7,"result":{}}', sessionId: 'theirs' };
  });
  const opened = await ask('{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}');
  await bodyText(opened);
  const headers = { 'mcp-session-id': opened.headers['Mcp-Session-Id'] };
  const listen = () => ask(list, { method: 'GET', headers });
  const answers = [await listen(), await listen(), await listen(), await listen(), await listen()];

  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 429]);
});

test('a caller that may not read resources is not notified of their changes in either era', async () => {
  const notices = ['resources', 'prompts', 'tools'].map(
    (of) => `{"jsonrpc":"2.0","method":"notifications/${of}/list_changed"}`,
  );
  upstream = fakeUpstream(({ method, text }) => {
    const isStream = method === 'GET' || text.includes('subscriptions/listen');
    if (isStream) return { mediaType: 'text/event-stream', text: eventStream(...notices) };
    const result = '{"supportedVersions":["2026-07-28"],"protocolVersion":"2025-06-18"}';
    return { text: `{"jsonrpc":"2.0","id":7,"result":${result}}`, sessionId: 'theirs' };
  });
  const opened = await ask('{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}');
  await bodyText(opened);
  const headers = { 'mcp-session-id': opened.headers['Mcp-Session-Id'] };
  const older = await ask(list, { method: 'GET', headers });
  const listen = modern('subscriptions/listen', { notifications: { toolsListChanged: true } });
  const newer = await ask(listen.body, {
    headers: { 'content-type': 'application/json', ...listen.headers },
  });

  for (const answer of [older, newer]) {
    const told = (await bodyText(answer)).match(/notifications\/\w+/g);
    expect(told).toEqual(['notifications/tools']);
  }
});

test.each(['GET', 'POST'])('a stream that answers a %s is not idle for long', async (method) => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const going = new ReadableStream<Uint8Array>();
  upstream = fakeUpstream((request) => {
    const isStream = request.method === 'GET' || request.text.includes('tools/list');
    if (isStream) return { mediaType: 'text/event-stream', text: going };
    const result = '{"protocolVersion":"2025-06-18"}';
    return { text: `{"jsonrpc":"2.0","id":7,"result":${result}}`, sessionId: 'theirs' };
  });
  const opened = await ask('{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}');
  await bodyText(opened);
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-session-id': opened.headers['Mcp-Session-Id'],
  };
  const { body } = await ask(list, { method, headers });
  if (typeof body !== 'object' || body instanceof Uint8Array) throw new Error('no stream');
  const first = body[Symbol.asyncIterator]().next();
  await vi.advanceTimersByTimeAsync(25_000);

  expect(Buffer.from((await first).value ?? []).toString()).toBe(': still here\n\n');
  vi.useRealTimers();
});

test.each([
  ['a result', '"result":{}', 502],
  ['an error', '"error":{"code":-32602,"message":"no"}', 200],
])(
  'a plain request ignores %s under another id, which is not its result',
  async (_, member, status) => {
    const server = legacyServer();
    upstream = {
      send: (request) =>
        Buffer.from(request.body ?? []).includes('tools/list')
          ? Promise.resolve({
              status: 200,
              mediaType: 'application/json',
              sessionId: undefined,
              retryAfterSeconds: undefined,
              body: Buffer.from(`{"jsonrpc":"2.0","id":999,${member}}`),
            })
          : server.send(request),
    };

    expect((await ask()).status).toBe(status);
  },
);

test('46: the rights of a caller are checked again after its body arrived slowly', async () => {
  const call = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"query"}}';
  const allowed = {
    endpoint: someServer(),
    toolCaller: ofNoPerson,
    keyId: 'key_a',
    scopes: ['mcp:tools:execute'],
  } as const;
  const meanwhile = {
    revoked: undefined,
    narrowed: { ...allowed, scopes: ['mcp:tools:read'] },
    hidden: { ...allowed, endpoint: someServer({ target: { hiddenTools: ['query'] } }) },
    another: { ...allowed, endpoint: someServer({ id: 'srv_another' }) },
    unchanged: allowed,
  } as const;
  const answers: Record<string, number | string> = {};
  for (const [name, then] of Object.entries(meanwhile)) {
    const server = legacyServer();
    upstream = server;
    const body = Promise.withResolvers<Buffer>();
    // A store, too, returns the same object until something is written.
    const before = { ...allowed };
    byKey.mockResolvedValueOnce(before).mockResolvedValue(then === allowed ? before : then);
    const answering = ask(call, { readBody: () => body.promise });
    await vi.waitFor(() => expect(byKey).toHaveBeenCalled(), patient);
    await new Promise(setImmediate);
    body.resolve(Buffer.from(call));
    const { status } = await answering;
    answers[name] =
      `${status}, ${server.sent.some(({ text }) => text.includes('query')) ? 'sent' : 'not sent'}`;
  }

  expect(answers).toEqual({
    revoked: '401, not sent',
    narrowed: '403, not sent',
    hidden: '200, not sent',
    another: '401, not sent',
    unchanged: '200, sent',
  });
});

test('a caller that leaves before its stream opens is noticed: its stream ends after a minute', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const going = new ReadableStream<Uint8Array>();
  let listening: UpstreamRequest['signal'] | undefined;
  const server = fakeUpstream((request) => {
    if (request.method === 'GET') return { mediaType: 'text/event-stream', text: going };
    const result = '{"protocolVersion":"2025-06-18"}';
    return { text: `{"jsonrpc":"2.0","id":7,"result":${result}}`, sessionId: 'theirs' };
  });
  upstream = {
    send(request) {
      if (request.method === 'GET') listening = request.signal;
      return server.send(request);
    },
  };
  const opened = await ask('{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}');
  await bodyText(opened);
  const headers = {
    accept: 'text/event-stream',
    'mcp-session-id': opened.headers['Mcp-Session-Id'],
    'last-event-id': 'u9-9',
  };
  await ask(list, { method: 'GET', headers, gone: AbortSignal.abort() });
  const before = listening?.aborted;
  await vi.advanceTimersByTimeAsync(60_000);

  expect([before, listening?.aborted]).toEqual([false, true]);
});

describe('a session that an upstream opened', () => {
  const initialize = '{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}';
  const result = '{"jsonrpc":"2.0","id":7,"result":{"protocolVersion":"2025-06-18"}}';
  const twice = '{"jsonrpc":"2.0","id":7,"id":7,"result":{}}';
  const foreign = '{"jsonrpc":"2.0","id":8,"result":{}}';
  const failed = '{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"no"}}';
  const events = { mediaType: 'text/event-stream' };
  const both = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };

  async function ended(answer: ScriptedAnswer, but: Partial<GatewayRequest> = {}) {
    const server = fakeUpstream(({ method }) =>
      method === 'DELETE' ? { status: 204 } : { ...answer, sessionId: 'theirs' },
    );
    upstream = server;
    await bodyText(await ask(initialize, but));
    await vi.waitFor(() => expect(gateway.counts().openCalls).toBe(0), patient);
    return server.sent.flatMap(({ method, headers }) =>
      method === 'DELETE' ? [headers['mcp-session-id']] : [],
    );
  }

  test.each<[string, ScriptedAnswer, Partial<GatewayRequest>]>([
    ['is not JSON', { text: 'no' }, {}],
    ['has a member twice', { text: twice }, {}],
    ['is for another request', { text: foreign }, {}],
    ['is of another media type', { mediaType: 'text/html', text: '<p>' }, {}],
    ['has a member twice, in a stream', { ...events, text: eventStream(twice) }, { headers: both }],
    ['is not in its stream', { ...events, text: '' }, {}],
    ['is an error', { status: 400, text: failed }, {}],
    ['is a fault', { status: 500, text: failed }, {}],
    ['comes when the caller is gone', { text: result }, { gone: AbortSignal.abort() }],
  ])('is ended there if its answer to initialize %s', async (_, answer, but) => {
    expect(await ended(answer, but)).toEqual(['theirs']);
    expect(gateway.counts().sessions).toBe(0);
  });

  test.each<[string, ScriptedAnswer, Partial<GatewayRequest>]>([
    ['JSON', { text: result }, {}],
    ['a stream', { ...events, text: eventStream(result) }, { headers: both }],
  ])('is kept if the caller gets its answer to initialize as %s', async (_, answer, but) => {
    expect(await ended(answer, but)).toEqual([]);
    expect(gateway.counts().sessions).toBe(1);
  });
});

test('a caller that names an event of an ended stream takes over the one that continues it, even from another connection', async () => {
  const said = eventStream('{"jsonrpc":"2.0","method":"notifications/message","params":{}}');
  const continued = new TransformStream<Uint8Array, Uint8Array>();
  const streams = [chunksOf(Buffer.from(said)), continued.readable];
  upstream = fakeUpstream((request) => {
    const text = request.method === 'GET' ? streams.shift() : undefined;
    if (text) return { mediaType: 'text/event-stream', text };
    const result = '{"protocolVersion":"2025-06-18"}';
    return { text: `{"jsonrpc":"2.0","id":7,"result":${result}}`, sessionId: 'theirs' };
  });
  const opened = await ask('{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}');
  await bodyText(opened);
  const session = { 'mcp-session-id': opened.headers['Mcp-Session-Id'] };
  const listen = (more = {}) => ask(list, { method: 'GET', headers: { ...session, ...more } });
  const firstEvent = async ({ body }: GatewayAnswer) => {
    if (typeof body !== 'object' || body instanceof Uint8Array) throw new Error('no stream');
    const { value } = await body[Symbol.asyncIterator]().next();
    return Buffer.from(value ?? []).toString();
  };
  await bodyText(await listen());
  const resume = { 'last-event-id': 'u1-1' };
  void firstEvent(await listen(resume));

  const again = firstEvent(await listen(resume));
  void continued.writable.getWriter().write(Buffer.from(said));

  expect(await again).toBe(`id: u2-1\n${said}`);
  expect(streams).toEqual([]);
});

test('56: a caller that lost a scope gets no stored event of a stream with more scopes, and does not take it over', async () => {
  const told = (changed: string) =>
    eventStream(`{"jsonrpc":"2.0","method":"notifications/${changed}/list_changed"}`);
  const wide = new TransformStream<Uint8Array, Uint8Array>();
  const streams = [wide.readable, chunksOf(Buffer.from(told('tools')))];
  upstream = fakeUpstream((request) => {
    const text = request.method === 'GET' ? streams.shift() : undefined;
    if (text) return { mediaType: 'text/event-stream', text };
    const result = '{"protocolVersion":"2025-06-18"}';
    return { text: `{"jsonrpc":"2.0","id":7,"result":${result}}`, sessionId: 'theirs' };
  });
  const scopes = ['mcp:tools:read', 'mcp:resources:read'] as const;
  byKey.mockResolvedValue({
    endpoint: someServer(),
    toolCaller: ofNoPerson,
    keyId: 'key_a',
    scopes,
  });
  const opened = await ask('{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}');
  await bodyText(opened);
  const session = { 'mcp-session-id': opened.headers['Mcp-Session-Id'] };
  const before = await ask(list, { method: 'GET', headers: session });
  void bodyText(before).catch(() => undefined);
  const writer = wide.writable.getWriter();
  await writer.write(Buffer.from(told('tools')));
  await writer.write(Buffer.from(told('resources')));

  byKey.mockResolvedValue({
    endpoint: someServer(),
    toolCaller: ofNoPerson,
    keyId: 'key_a',
    scopes: ['mcp:tools:read'],
  });
  const headers = { ...session, 'last-event-id': 'u1-1' };
  const after = await bodyText(await ask(list, { method: 'GET', headers }));

  expect(after).toContain('notifications/tools');
  expect(after).not.toContain('notifications/resources');
});

describe('a server whose upstream URL changes', () => {
  /** From now on calls go to `next`. */
  function pointTo(url: string, next: Upstream) {
    upstream = next;
    const server = someServer({ target: { upstream: { kind: 'http', url } } });
    byKey.mockResolvedValue({
      endpoint: server,
      toolCaller: ofNoPerson,
      keyId: 'key_a',
      scopes: ['mcp:tools:read'],
    });
  }
  const [first, second] = [legacyServer(), legacyServer()];
  const sent = ({ sent: requests }: typeof first) =>
    requests.splice(0).map(({ method, headers }) => [method, headers['mcp-session-id']]);

  beforeEach(() => {
    pointTo('https://first.example.com/mcp', first);
    for (const { sent: requests } of [first, second]) requests.splice(0);
  });

  test('uses none of the sessions that a plain request opened at the previous upstream', async () => {
    await bodyText(await ask());
    const [, session] = sent(first).at(-1) ?? [];
    pointTo('https://second.example.com/mcp', second);

    expect((await ask()).status).toBe(200);
    expect(sent(second)).toEqual([
      ['POST', undefined],
      ['POST', undefined],
      ['POST', expect.any(String)],
      ['POST', expect.any(String)],
    ]);
    await vi.waitFor(() => expect(sent(first)).toEqual([['DELETE', session]]), patient);
  });

  test('uses no session that was opened before, and reports it as ended', async () => {
    const opened = await ask('{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}');
    await bodyText(opened);
    const headers = {
      'content-type': 'application/json',
      'mcp-session-id': opened.headers['Mcp-Session-Id'],
    };
    expect((await ask(list, { headers })).status).toBe(200);
    const [, session] = sent(first).at(-1) ?? [];
    pointTo('https://second.example.com/mcp', second);

    expect((await ask(list, { headers })).status).toBe(404);
    expect(sent(second)).toEqual([]);
    await vi.waitFor(() => expect(sent(first)).toEqual([['DELETE', session]]), patient);

    pointTo('https://first.example.com/mcp', first);

    expect((await ask(list, { headers })).status).toBe(404);
  });
});
