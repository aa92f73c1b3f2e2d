import { describe, expect, test } from 'vitest';

import { EraAdapters } from '#server/gateway/era-adapters';
import type { Target } from '#server/model/endpoints';
import { type SaidMessage, allOf, eraCaller, lastOf, messagesOf } from '#support/era-caller';
import { type ScriptedAnswer, eventStream, fakeUpstream } from '#support/fake-upstream';
import { patient } from '#support/patient';
import { stillClock } from '#support/still-clock';

const discovered = {
  supportedVersions: ['2026-07-28'],
  capabilities: { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } },
};

/** A server that speaks only the modern era; `answer` answers everything but handshakes. */
function modernOnly(
  answer: (asked: SaidMessage, signal: AbortSignal) => ScriptedAnswer = () => ({}),
) {
  return fakeUpstream(({ text, signal, method }) => {
    if (method !== 'POST') return { status: 405 };
    const asked: SaidMessage = JSON.parse(text);
    if (asked.method === 'initialize') return refusal(asked, -32022);
    if (asked.method === 'server/discover') return result(asked, discovered);
    return answer(asked, signal);
  });
}
const result = ({ id }: SaidMessage, value: object): ScriptedAnswer => ({
  text: JSON.stringify({ jsonrpc: '2.0', id, result: value }),
});
const refusal = ({ id }: SaidMessage, code: number): ScriptedAnswer => ({
  status: 400,
  text: JSON.stringify({ jsonrpc: '2.0', id, error: { code, message: 'no' } }),
});

const initialize = {
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-06-18',
    capabilities: { sampling: {} },
    clientInfo: { name: 'c', version: '1' },
  },
};

async function inSession(upstream: ReturnType<typeof fakeUpstream>, options = {}) {
  const caller = eraCaller(upstream, options);
  const opened = await caller.legacy(initialize);
  const headers = { 'mcp-session-id': opened.sessionId ?? '' };
  return {
    ...caller,
    opened,
    headers,
    ask: (message: object) => caller.legacy(message, { headers }),
  };
}

test('initialize is answered with what the upstream says about itself, and a session', async () => {
  const { opened } = await inSession(modernOnly());

  expect(opened.sessionId).toMatch(/^[\w-]{32}$/);
  expect(await lastOf(opened)).toMatchObject({
    id: 1,
    result: { protocolVersion: '2025-06-18', capabilities: discovered.capabilities },
  });
});

test('the next handshake is not tried in the older era first', async () => {
  const upstream = modernOnly();
  const { legacy } = await inSession(upstream);
  const before = upstream.sent.length;

  await legacy(initialize);

  expect(upstream.sent.slice(before).map(({ headers }) => headers['mcp-method'])).toEqual([
    'server/discover',
  ]);
});

test('the error of an upstream that refuses both eras is passed on', async () => {
  const upstream = fakeUpstream(({ text }) => refusal(JSON.parse(text), -32000));
  const answer = await eraCaller(upstream).legacy(initialize);

  expect([answer.status, answer.sessionId]).toEqual([400, undefined]);
  expect(await lastOf(answer)).toMatchObject({ id: 1, error: { code: -32000 } });
});

test('a request is sent with the client’s information, and its answer returns without modern members', async () => {
  const upstream = modernOnly((asked) => result(asked, { resultType: 'complete', tools: [] }));
  const { ask } = await inSession(upstream);

  const answer = await ask({ id: 'a', method: 'tools/list' });

  expect(await lastOf(answer)).toEqual({ jsonrpc: '2.0', id: 'a', result: { tools: [] } });
  const { headers, text } = upstream.sent.at(-1) ?? { headers: {}, text: '{}' };
  expect(headers).toMatchObject({
    'mcp-method': 'tools/list',
    'mcp-protocol-version': '2026-07-28',
  });
  expect(headers).not.toHaveProperty('mcp-session-id');
  expect(JSON.parse(text)).toMatchObject({
    params: { _meta: { 'io.modelcontextprotocol/clientCapabilities': { sampling: {} } } },
  });
});

test('a session opens for its owner only, and no longer once it is deleted', async () => {
  const eras = new EraAdapters(stillClock());
  const upstream = modernOnly((asked) => result(asked, {}));
  const mine = await inSession(upstream, { eras });
  const stranger = eraCaller(upstream, { eras, owner: 'key:b srv' });
  const { headers } = mine;
  const list = { id: 2, method: 'tools/list' };

  expect((await stranger.legacy(list, { headers })).status).toBe(404);
  expect((await stranger.within('GET', { headers })).status).toBe(404);
  expect((await stranger.within('DELETE', { headers })).status).toBe(404);
  expect((await mine.ask(list)).status).toBe(200);
  expect((await mine.within('DELETE', { headers })).status).toBe(204);
  // The gateway no longer knows the session, and leaves it to the upstream to refuse the call.
  expect(await lastOf(await mine.ask(list))).toMatchObject({ id: 2 });
  expect(upstream.sent.at(-1)?.headers).toHaveProperty('mcp-session-id');
});

test('107: a call that is answered 404 without a message ends its session, one with a message does not', async () => {
  const unknown = { jsonrpc: '2.0', error: { code: -32601, message: 'no' } };
  const upstream = modernOnly(({ id, method }) =>
    method === 'tools/list'
      ? { status: 404, text: JSON.stringify({ ...unknown, id }) }
      : { status: 404, mediaType: 'text/html', text: '<p>not here' },
  );
  const { ask } = await inSession(upstream);
  const isHere = async () => {
    await ask({ id: 3, method: 'ping' });
    return upstream.sent.at(-1)?.headers['mcp-session-id'] === undefined;
  };

  expect(await lastOf(await ask({ id: 2, method: 'tools/list' }))).toMatchObject({
    error: { code: -32601 },
  });
  expect(await isHere()).toBe(true);
  expect((await ask({ id: 4, method: 'tools/call', params: { name: 't' } })).status).toBe(404);
  expect(await isHere()).toBe(false);
});

describe('input that the upstream requires', () => {
  const needs = { resultType: 'input_required', requestState: 'kept' };
  const sampling = { method: 'sampling/createMessage', params: { maxTokens: 1 } };
  const asking = modernOnly((asked) =>
    asked.params?.['inputResponses']
      ? result(asked, { resultType: 'complete', given: asked.params })
      : result(asked, { ...needs, inputRequests: { k: sampling } }),
  );

  test('is requested from the caller, and the request sent again with the response', async () => {
    const { ask } = await inSession(asking);
    const answer = messagesOf(await ask({ id: 5, method: 'tools/call', params: { name: 't' } }));
    const { value: question } = await answer.next();
    await ask({ id: question?.id, result: { model: 'm' } });
    const { value: last } = await answer.next();

    expect(question).toMatchObject(sampling);
    expect(last).toMatchObject({
      id: 5,
      result: { given: { name: 't', inputResponses: { k: { model: 'm' } }, requestState: 'kept' } },
    });
  });

  test('117: is not requested at all if it is more than a hundred requests', async () => {
    const requests = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, sampling]));
    const call = { id: 5, method: 'tools/call' };
    const many = modernOnly((asked) => result(asked, { ...needs, inputRequests: requests(101) }));
    const few = modernOnly((asked) => result(asked, { ...needs, inputRequests: requests(100) }));
    const { value: first } = await messagesOf(await (await inSession(few)).ask(call)).next();

    expect(first).toMatchObject(sampling);
    expect(await lastOf(await (await inSession(many)).ask(call))).toMatchObject({
      id: 5,
      error: { message: 'the MCP server requested more than 100 inputs at once' },
    });
  });

  test('is refused if the caller does not support it or answers with an error', async () => {
    const roots = modernOnly((asked) =>
      result(asked, { ...needs, inputRequests: { k: { method: 'roots/list' } } }),
    );
    const unable = await inSession(roots);
    const { ask } = await inSession(asking);
    const answer = messagesOf(await ask({ id: 6, method: 'tools/call', params: { name: 't' } }));
    const { value: question } = await answer.next();
    await ask({ id: question?.id, error: { code: -1, message: 'the person said no' } });

    expect(await lastOf(await unable.ask({ id: 5, method: 'tools/call' }))).toMatchObject({
      id: 5,
      error: { message: 'the MCP server requires roots/list, which the client does not support' },
    });
    expect((await answer.next()).value).toMatchObject({
      id: 6,
      error: { message: expect.stringContaining('the person said no') },
    });
  });
});

test('progress passes, and a cancelled request ends at the upstream without an answer', async () => {
  const { promise: never } = Promise.withResolvers<void>();
  const upstream = modernOnly((asked, signal) => ({
    mediaType: 'text/event-stream',
    text: (async function* () {
      yield Buffer.from(
        eventStream('{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'),
      );
      const ended = new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });
      await Promise.race([never, ended]);
      yield Buffer.from(eventStream(JSON.stringify({ jsonrpc: '2.0', id: asked.id, result: {} })));
    })(),
  }));
  const { ask } = await inSession(upstream);
  const answer = messagesOf(await ask({ id: 8, method: 'tools/call', params: { name: 't' } }));
  const first = await answer.next();

  const params = { requestId: 8 };
  expect((await ask({ method: 'notifications/cancelled', params })).status).toBe(202);

  expect(first.value).toMatchObject({ method: 'notifications/progress' });
  expect(await answer.next()).toEqual({ done: true, value: undefined });
  expect(upstream.sent.at(-1)?.signal.aborted).toBe(true);
});

test.each([
  ['ping', {}, {}],
  ['logging/setLevel', { level: 'info' }, {}],
  ['resources/subscribe', { uri: 'a:b' }, {}],
  ['resources/unsubscribe', { uri: 'a:b' }, {}],
])('%s needs no upstream', async (method, params, expected) => {
  const upstream = modernOnly();
  const { ask } = await inSession(upstream);
  const before = upstream.sent.length;

  expect((await lastOf(await ask({ id: 3, method, params }))).result).toEqual(expected);
  expect(upstream.sent.length).toBe(before);
});

test('107: a session has at most a thousand subscriptions, none of a very long URI', async () => {
  const { ask } = await inSession(modernOnly());
  const subscribe = async (uri: string) =>
    lastOf(await ask({ id: 3, method: 'resources/subscribe', params: { uri } }));
  const long = await subscribe(`a:${'b'.repeat(8192)}`);
  for (let n = 0; n < 1000; n += 1) await subscribe(`a:${n}`);
  const more = await subscribe('a:more');
  await ask({ id: 3, method: 'resources/unsubscribe', params: { uri: 'a:1' } });

  expect([long, more]).toMatchObject([{ error: { code: -32602 } }, { error: { code: -32602 } }]);
  expect((await subscribe('a:more')).result).toEqual({});
});

test('a log level is sent with every following request, and must be valid', async () => {
  const upstream = modernOnly((asked) => result(asked, {}));
  const { ask } = await inSession(upstream);
  const level = (name: string) =>
    ask({ id: 3, method: 'logging/setLevel', params: { level: name } });

  expect(await lastOf(await level('loud'))).toMatchObject({ error: { code: -32602 } });
  await level('error');
  await ask({ id: 4, method: 'tools/list' });

  expect(upstream.sent.at(-1)?.text).toContain('"io.modelcontextprotocol/logLevel":"error"');
});

describe('a collection', () => {
  const legacyTasks = { requests: { tools: { call: {} } } };
  const collection = () => {
    const upstream = fakeUpstream(({ text, method }) => {
      if (method !== 'POST') return { status: 405 };
      const asked: SaidMessage = JSON.parse(text);
      const _meta = { 'dev.latchkey/legacyTasks': legacyTasks };
      if (asked.method === 'server/discover') return result(asked, { ...discovered, _meta });
      if (asked.method === 'initialize') return refusal(asked, -32022);
      return asked.id === undefined ? { status: 202 } : result(asked, {});
    });
    return upstream;
  };
  const target: Partial<Target> = { upstream: { kind: 'collection', members: [], names: [] } };

  test('offers tasks of the older era, if its members do', async () => {
    const { opened } = await inSession(collection(), { target });
    const { opened: other } = await inSession(collection());

    expect((await lastOf(opened)).result?.['capabilities']).toMatchObject({ tasks: legacyTasks });
    expect((await lastOf(other)).result?.['capabilities']).not.toHaveProperty('tasks');
  });

  test('logs from `info` on for a caller that has not set a level', async () => {
    const upstream = collection();
    const { ask } = await inSession(upstream, { target });

    await ask({ id: 4, method: 'tools/list' });
    await ask({ id: 5, method: 'logging/setLevel', params: { level: 'error' } });
    await ask({ id: 6, method: 'tools/list' });

    const levels = upstream.sent.map(({ text }) => /logLevel":"(\w+)"/.exec(text)?.[1]);
    expect(levels.slice(-2)).toEqual(['info', 'error']);
  });

  test('is told when the caller has other roots, and any other upstream is not', async () => {
    const changed = { method: 'notifications/roots/list_changed' };
    const [upstream, alone] = [collection(), collection()];
    const { ask } = await inSession(upstream, { target });
    const { ask: askAlone } = await inSession(alone);

    await ask(changed);
    await askAlone(changed);

    expect(upstream.sent.at(-1)?.text).toContain(changed.method);
    expect(alone.sent.at(-1)?.text).not.toContain(changed.method);
  });

  test('is asked for news of tasks, and a session gets the progress of its own, under its own tokens', async () => {
    const progressOf = (progressToken: unknown) => ({
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken, progress: 1 },
    });
    const status = { jsonrpc: '2.0', method: 'notifications/tasks/status', params: {} };
    const tokens: unknown[] = [];
    const upstream = fakeUpstream(({ text, method }) => {
      if (method !== 'POST') return { status: 405 };
      const asked: SaidMessage = JSON.parse(text);
      const _meta = { 'dev.latchkey/legacyTasks': legacyTasks };
      if (asked.method === 'server/discover') return result(asked, { ...discovered, _meta });
      if (asked.method === 'initialize') return refusal(asked, -32022);
      if (asked.method === 'subscriptions/listen') {
        const messages = [progressOf(1), ...tokens.map(progressOf), status];
        const events = eventStream(...messages.map((one) => JSON.stringify(one)));
        return { mediaType: 'text/event-stream', text: events };
      }
      const token = Object(asked.params?.['_meta'])['progressToken'];
      tokens.push(token);
      const answer = { jsonrpc: '2.0', id: asked.id, result: {} };
      const messages = [progressOf(token), answer].map((one) => JSON.stringify(one));
      return { mediaType: 'text/event-stream', text: eventStream(...messages) };
    });
    const caller = eraCaller(upstream, { target });
    const sessions = [await caller.legacy(initialize), await caller.legacy(initialize)];
    const [first = {}, second = {}] = sessions.map(({ sessionId = '' }) => ({
      'mcp-session-id': sessionId,
    }));
    const params = { name: 't', task: {}, _meta: { progressToken: 1 } };
    const begins = { id: 2, method: 'tools/call', params };

    const [own] = await allOf(await caller.legacy(begins, { headers: first }));
    await allOf(await caller.legacy(begins, { headers: second }));
    const gone = new AbortController();
    const heard = messagesOf(await caller.within('GET', { headers: first, signal: gone.signal }));
    const news = [(await heard.next()).value, (await heard.next()).value];
    gone.abort();

    expect(new Set([...tokens, 1]).size).toBe(3);
    expect(own).toEqual(progressOf(1));
    expect(news).toEqual([progressOf(1), status]);
    const listens = upstream.sent.find(({ text }) => text.includes('subscriptions/listen'));
    expect(JSON.parse(listens?.text ?? '')).toMatchObject({
      params: { _meta: { 'dev.latchkey/legacyTasks': true } },
    });
  });

  test('without tasks is not asked for news of them', async () => {
    const upstream = fakeUpstream(({ text, method }) => {
      if (method !== 'POST') return { status: 405 };
      const asked: SaidMessage = JSON.parse(text);
      if (asked.method === 'server/discover') return result(asked, discovered);
      return asked.method === 'initialize' ? refusal(asked, -32022) : { status: 404 };
    });
    const { within, headers } = await inSession(upstream, { target });
    const gone = new AbortController();

    const heard = messagesOf(await within('GET', { headers, signal: gone.signal })).next();
    const isListen = ({ text }: { readonly text: string }) => text.includes('subscriptions/listen');
    await expect.poll(() => upstream.sent.some(isListen), patient).toBe(true);
    gone.abort();
    await heard;

    expect(upstream.sent.find(isListen)?.text).not.toContain('legacyTasks');
  });
});

test('the GET stream becomes a subscription to what the caller may receive', async () => {
  const acknowledged = {
    method: 'notifications/subscriptions/acknowledged',
    params: { notifications: { resourcesListChanged: true, resourceSubscriptions: ['a:b'] } },
  };
  const _meta = { 'io.modelcontextprotocol/subscriptionId': 'listens-1' };
  const updated = { method: 'notifications/resources/updated', params: { uri: 'a:b', _meta } };
  const upstream = modernOnly(() => ({
    mediaType: 'text/event-stream',
    text: (async function* () {
      const messages = [acknowledged, updated].map((one) =>
        JSON.stringify({ jsonrpc: '2.0', ...one }),
      );
      yield Buffer.from(eventStream(...messages));
      await new Promise(() => undefined);
    })(),
  }));
  const { ask, within, headers } = await inSession(upstream, { scopes: ['mcp:resources:read'] });
  await ask({ id: 3, method: 'resources/subscribe', params: { uri: 'a:b' } });
  const gone = new AbortController();
  const stream = messagesOf(await within('GET', { headers, signal: gone.signal }));

  expect((await stream.next()).value).toEqual({
    jsonrpc: '2.0',
    method: 'notifications/resources/updated',
    params: { uri: 'a:b' },
  });
  expect(JSON.parse(upstream.sent.at(-1)?.text ?? '')).toMatchObject({
    method: 'subscriptions/listen',
    params: { notifications: { resourcesListChanged: true, resourceSubscriptions: ['a:b'] } },
  });
  expect(upstream.sent.at(-1)?.text).not.toContain('toolsListChanged');
  gone.abort();
  expect(await stream.next()).toEqual({ done: true, value: undefined });
  expect(upstream.sent.at(-1)?.signal.aborted).toBe(true);
});
