import { expect, test } from 'vitest';
import { jsonLinesLog } from '#proxy/log/log';
import { translatedUpstream } from '#proxy/pipeline/translated-server';
import { fakeClock } from '#support/fake-clock';
import {
  asMessage,
  listener,
  scriptedUpstream,
  type Said,
  type Script,
} from '#support/scripted-upstream';

const prefix = 'io.modelcontextprotocol/';
const signal = new AbortController().signal;
const log = jsonLinesLog('error', () => undefined);
const capabilities = { elicitation: {}, sampling: {}, roots: { listChanged: true }, tasks: {} };
const clientInfo = { name: 'assistant', version: '1' };
const initialize = {
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities, clientInfo },
};
const discovered = {
  resultType: 'complete',
  supportedVersions: ['2026-07-28'],
  capabilities: { tools: {}, resources: { subscribe: true, listChanged: true }, logging: {} },
  instructions: 'Be kind.',
  _meta: { [`${prefix}serverInfo`]: { name: 'modern', version: '2' } },
};

/** An assistant that has shaken hands with a modern server which answers by `script`. */
async function met(script: Script = () => []) {
  const upstream = scriptedUpstream((asked, ...rest) =>
    asked.method === 'server/discover'
      ? [{ id: asked.id, result: discovered }]
      : script(asked, ...rest),
  );
  const clock = fakeClock();
  const translated = translatedUpstream({ upstream, clock, log });
  const answer = await translated.handshake(asMessage(initialize), signal);
  const assistant = listener();
  const ask = async (message: Said | string, until = signal) =>
    translated.send(asMessage(message), assistant.deliver, until);
  upstream.asked.length = 0;
  upstream.texts.length = 0;
  return { upstream, clock, translated, answer, assistant, ask };
}

/** Waits until the messages that were just sent have been handled. */
const settled = async () => fakeClock().settled();

const needing = (inputRequests: object, requestState?: string): Record<string, unknown> => ({
  resultType: 'input_required',
  inputRequests,
  ...(requestState !== undefined && { requestState }),
});
const form = { method: 'elicitation/create', params: { message: 'Sure?', requestedSchema: {} } };
const sampling = { method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } };

test('legacy to modern: the answer to initialize has the requested version and the server’s description', async () => {
  const { answer } = await met();

  expect(JSON.parse(String(answer?.bytes))).toEqual({
    jsonrpc: '2.0',
    id: 0,
    result: {
      protocolVersion: '2025-06-18',
      capabilities: {
        tools: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        logging: {},
      },
      serverInfo: { name: 'modern', version: '2' },
      instructions: 'Be kind.',
    },
  });
});

test.each([
  ['says that it does not know the method', { error: { code: -32601 } }],
  ['speaks other revisions', { result: { supportedVersions: ['2099-01-01'] } }],
  ['refuses our revision', { error: { code: -32022, data: { supported: ['2099-01-01'] } } }],
])('legacy to modern: a server that %s is not treated as modern', async (_, answer) => {
  const upstream = scriptedUpstream(({ id }) => [{ id, ...answer }]);
  const translated = translatedUpstream({ upstream, clock: fakeClock(), log });

  expect(await translated.handshake(asMessage(initialize), signal)).toBeUndefined();
  expect(upstream.asked).toHaveLength(1);
});

test('legacy to modern: if a server refuses a version that it announces, the request is repeated once', async () => {
  const refusal = { code: -32022, data: { supported: ['2026-07-28'] } };
  const upstream = scriptedUpstream(({ id }) =>
    upstream.asked.length === 1 ? [{ id, error: refusal }] : [{ id, result: discovered }],
  );
  const translated = translatedUpstream({ upstream, clock: fakeClock(), log });

  expect(await translated.handshake(asMessage(initialize), signal)).toBeDefined();
});

test('legacy to modern: each request carries the handshake’s data and keeps its other bytes', async () => {
  const { upstream, ask } = await met(({ id }) => [{ id, result: {} }]);

  await ask(
    '{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":{"name":"add","arguments":{"a":12345678901234567890,"b":1.50},"_meta":{"progressToken":7}}}',
  );

  expect(upstream.texts[0]).toContain('"id":12345678901234567890');
  expect(upstream.texts[0]).toContain('"arguments":{"a":12345678901234567890,"b":1.50}');
  expect(upstream.asked[0]?.params?.['_meta']).toEqual({
    progressToken: 7,
    [`${prefix}protocolVersion`]: '2026-07-28',
    [`${prefix}clientInfo`]: clientInfo,
    [`${prefix}clientCapabilities`]: {
      elicitation: { form: {} },
      sampling: {},
      roots: { listChanged: true },
    },
  });
});

test('modern to legacy: an answer loses modern members and keeps its other bytes', async () => {
  const { assistant, ask } = await met(() => [
    '{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":5,"cacheScope":"private","content":[],"structuredContent":{"n":12345678901234567890}}}',
  ]);

  await ask({ id: 1, method: 'tools/call', params: { name: 'x' } });

  expect(assistant.texts).toEqual([
    '{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"n":12345678901234567890}}}',
  ]);
});

test('modern to legacy: schemas and structured content that are not objects are removed', async () => {
  const object = { name: 'a', inputSchema: {}, outputSchema: { type: 'object' } };
  const list = { name: 'b', inputSchema: {}, outputSchema: { type: 'array' } };
  const { assistant, ask } = await met(({ id, method }) => [
    { id, result: method === 'tools/list' ? { tools: [object, list] } : { structuredContent: [] } },
  ]);

  await ask({ id: 1, method: 'tools/list' });
  await ask({ id: 2, method: 'tools/call', params: { name: 'b' } });

  expect(assistant.said[0]?.result).toEqual({ tools: [object, { name: 'b', inputSchema: {} }] });
  expect(assistant.said[1]?.result).toEqual({});
});

test('modern to legacy: an error passes unchanged', async () => {
  const error = { code: -32021, message: 'needs sampling', data: { required: ['sampling'] } };
  const { assistant, ask } = await met(({ id }) => [{ id, error }]);

  await ask({ id: 1, method: 'tools/call' });

  expect(assistant.said).toMatchObject([{ id: 1, error }]);
});

test('modern to legacy: required input is requested from the assistant and returned under another id', async () => {
  const state = 'opaque "state" \\ é';
  const { upstream, assistant, ask } = await met(({ id, params }) =>
    params?.['inputResponses'] === undefined
      ? [{ id, result: needing({ sure: form, thought: sampling }, state) }]
      : [{ id, result: { resultType: 'complete', content: [] } }],
  );

  const done = ask({
    id: 'call',
    method: 'tools/call',
    params: { name: 'x', arguments: { n: 1 } },
  });
  await settled();
  const [first, second] = assistant.said;
  await ask({ id: second?.id, result: { role: 'assistant', model: 'm' } });
  await ask({ id: first?.id, result: { action: 'accept', content: { yes: true } } });
  await done;

  expect([first, second]).toMatchObject([form, sampling]);
  expect(assistant.said.slice(2)).toEqual([
    { jsonrpc: '2.0', id: 'call', result: { content: [] } },
  ]);
  expect(upstream.asked[1]).toMatchObject({
    method: 'tools/call',
    params: {
      name: 'x',
      arguments: { n: 1 },
      requestState: state,
      inputResponses: {
        sure: { action: 'accept', content: { yes: true } },
        thought: { role: 'assistant', model: 'm' },
      },
    },
  });
  expect(upstream.asked[1]?.id).not.toBe('call');
});

test('modern to legacy: URL elicitation gets the id that legacy assistants expect', async () => {
  const params = { mode: 'url', url: 'https://acme.example/pay', message: 'Pay' };
  const { assistant, ask } = await met(({ id }) => [
    { id, result: needing({ pay: { method: 'elicitation/create', params } }) },
  ]);

  void ask({ id: 1, method: 'tools/call' });
  await settled();

  expect(assistant.said[0]?.params).toEqual({ ...params, elicitationId: expect.any(String) });
});

test('modern to legacy: if the assistant answers with an error, the call fails, and other requests are cancelled', async () => {
  const { upstream, assistant, ask } = await met(({ id }) => [
    { id, result: needing({ sure: form, thought: sampling }) },
  ]);

  const done = ask({ id: 1, method: 'tools/call' });
  await settled();
  const [first, second] = assistant.said;
  await ask({ id: first?.id, error: { code: -1, message: 'no window' } });
  await done;

  expect(assistant.said.slice(2)).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        method: 'notifications/cancelled',
        params: expect.objectContaining({ requestId: second?.id }),
      }),
      expect.objectContaining({
        id: 1,
        error: { code: -32603, message: expect.stringContaining('no window') },
      }),
    ]),
  );
  expect(upstream.asked).toHaveLength(1);
});

test('modern to legacy: the assistant gets no request that it does not support', async () => {
  const request = { method: 'tools/call', params: {} };
  const { assistant, ask } = await met(({ id }) => [{ id, result: needing({ odd: request }) }]);

  await ask({ id: 1, method: 'tools/call' });

  expect(assistant.said).toMatchObject([{ id: 1, error: { code: -32603 } }]);
});

test('117: modern to legacy: the assistant gets no request if a result requires more than a hundred inputs', async () => {
  const inputs = Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`k${at}`, form]));
  const { assistant, ask } = await met(({ id }) => [{ id, result: needing(inputs) }]);

  await ask({ id: 1, method: 'tools/call' });

  expect(assistant.said).toMatchObject([
    { id: 1, error: { message: 'the server requested more than 100 inputs at once' } },
  ]);
});

test('modern to legacy: cancelling a call cancels its open request to the assistant', async () => {
  const { upstream, assistant, ask } = await met(({ id }) => [
    { id, result: needing({ sure: form }) },
  ]);
  const cancel = new AbortController();

  const done = ask({ id: 1, method: 'tools/call' }, cancel.signal);
  await settled();
  cancel.abort();

  await expect(done).rejects.toMatchObject({ code: 'aborted' });
  expect(assistant.said.map(({ method }) => method)).toEqual([
    'elicitation/create',
    'notifications/cancelled',
  ]);
  expect(upstream.asked).toHaveLength(1);
});

test('modern to legacy: a request that requires no input is repeated after a pause', async () => {
  const { upstream, clock, assistant, ask } = await met(({ id, params }) => [
    { id, result: params?.['requestState'] === 's' ? { content: [] } : needing({}, 's') },
  ]);

  const done = ask({ id: 1, method: 'tools/call' });
  await clock.settled();
  const before = upstream.asked.length;
  await clock.advance(1);
  await done;

  expect(before).toBe(1);
  expect(upstream.asked[1]?.params).not.toHaveProperty('inputResponses');
  expect(assistant.said).toMatchObject([{ id: 1, result: { content: [] } }]);
});

test('modern to legacy: if the server keeps requiring input, the request is sent eleven times', async () => {
  const { upstream, clock, assistant, ask } = await met(({ id }) => [
    { id, result: needing({}, 'more') },
  ]);

  const done = ask({ id: 1, method: 'tools/call' });
  for (let round = 0; round < 11; round += 1) await clock.advance(1);
  await done;

  expect(upstream.asked).toHaveLength(11);
  expect(assistant.said).toMatchObject([{ id: 1, error: { code: -32603 } }]);
});

test('legacy to modern: ping and the log level are answered locally; the level goes with later requests', async () => {
  const { upstream, assistant, ask } = await met(({ id }) => [{ id, result: {} }]);

  await ask({ id: 1, method: 'ping' });
  await ask({ id: 2, method: 'logging/setLevel', params: { level: 'warning' } });
  await ask({ id: 3, method: 'logging/setLevel', params: { level: 'loud' } });
  await ask({ id: 4, method: 'tools/list' });

  expect(assistant.said).toMatchObject([
    { id: 1, result: {} },
    { id: 2, result: {} },
    { id: 3, error: { code: -32602 } },
    { id: 4, result: {} },
  ]);
  expect(upstream.asked).toHaveLength(1);
  expect(upstream.asked[0]?.params?.['_meta']).toMatchObject({ [`${prefix}logLevel`]: 'warning' });
});

test('legacy to modern: notifications that only legacy servers know are dropped', async () => {
  const { upstream, ask } = await met();

  for (const method of ['initialized', 'cancelled', 'progress', 'roots/list_changed'])
    await ask({ method: `notifications/${method}` });
  await ask({ method: 'notifications/acme/ready' });

  expect(upstream.asked.map(({ method }) => method)).toEqual(['notifications/acme/ready']);
});

test('legacy to modern: a message that is already modern passes unchanged', async () => {
  const { upstream, ask } = await met();
  const text = `{"id":1,"method":"tools/list","params":{"_meta":{"${prefix}protocolVersion":"2026-07-28"}}}`;

  await ask(text);

  expect(upstream.texts).toEqual([text]);
});

test.each([
  [true, { result: {} }],
  [false, { error: { code: -32601 } }],
])(
  'legacy to modern: a subscription is answered according to what the server acknowledges (%s)',
  async (honoured, answer) => {
    const { translated, assistant, ask } = await met(async ({ params }, aborted, say) => {
      const { resourceSubscriptions, ...lists } = Object(params?.['notifications']);
      const notifications = honoured ? { ...lists, resourceSubscriptions } : lists;
      await say({
        method: 'notifications/subscriptions/acknowledged',
        params: { notifications },
      });
      await new Promise((resolve) => aborted.addEventListener('abort', resolve));
      return [];
    });
    const over = new AbortController();
    const following = translated.listen(assistant.deliver, over.signal);

    await ask({ id: 5, method: 'resources/subscribe', params: { uri: 'memo://a' } });
    over.abort();
    await following;

    expect(assistant.said).toMatchObject([{ id: 5, ...answer }]);
  },
);
