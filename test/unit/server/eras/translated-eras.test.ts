import { expect, test } from 'vitest';
import { eraCaller, lastOf, type SaidMessage } from '#support/era-caller';
import { fakeUpstream, type ScriptedAnswer } from '#support/fake-upstream';
import { stillClock } from '#support/still-clock';

type Speaks = 'modern' | 'legacy' | 'both' | 'neither' | 'busy';

/** A server whose eras change by hand. */
function changeling(first: Speaks) {
  let speaks = first;
  const answer = ({ id, method }: SaidMessage): ScriptedAnswer => {
    const say = (rest: object, status = 200) => ({
      status,
      text: JSON.stringify({ jsonrpc: '2.0', id, ...rest }),
    });
    const unknown = { error: { code: -32601, message: 'no' } };
    if (speaks === 'busy') return { status: 503 };
    if (speaks === 'neither') return say(unknown, 400);
    if (method === 'server/discover') {
      return speaks === 'legacy'
        ? say(unknown)
        : say({ result: { supportedVersions: ['2026-07-28'] } });
    }
    if (method === 'initialize') {
      const result = { protocolVersion: '2025-06-18', capabilities: {} };
      return speaks === 'modern' ? say(unknown, 400) : say({ result });
    }
    return id === undefined ? { status: 202 } : say({ result: { speaks } });
  };
  const upstream = fakeUpstream(({ headers, text }) => {
    const asked: SaidMessage = JSON.parse(text);
    const isModern = headers['mcp-protocol-version'] === '2026-07-28';
    // As servers of the older era do that look at the version.
    if (speaks === 'legacy' && isModern && asked.method !== 'server/discover')
      return { status: 400 };
    return answer(asked);
  });
  const clock = stillClock();
  return {
    upstream,
    clock,
    caller: eraCaller(upstream, { clock }),
    become: (now: Speaks) => void (speaks = now),
    methods: () =>
      upstream.sent.splice(0).map(({ text }) => {
        const { method }: SaidMessage = JSON.parse(text);
        return method;
      }),
  };
}

const initialize = {
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {} },
};

test.each(['modern', 'both'] as const)(
  'an upstream that speaks %s is asked once, and then gets the caller’s own bytes',
  async (speaks) => {
    const { caller, methods, upstream } = changeling(speaks);
    await caller.modern('tools/list');
    const [, own] = upstream.sent;
    await caller.modern('tools/list');

    expect(own?.text).toContain('io.modelcontextprotocol/protocolVersion');
    expect(own?.text).toBe(upstream.sent[2]?.text);
    expect(methods()).toEqual(['server/discover', 'tools/list', 'tools/list']);
  },
);

test('what comes of one caller’s question about the eras is nobody else’s', async () => {
  const { upstream, caller } = changeling('modern');
  const refused = new Error('no account is connected');
  const lacking = { send: () => Promise.reject(refused) };
  const stranger = eraCaller(lacking, { eras: caller.eras, owner: 'key:b srv' });
  const [theirs, own] = await Promise.allSettled([
    stranger.modern('tools/list'),
    caller.modern('tools/list'),
  ]);

  expect(theirs).toMatchObject({ status: 'rejected', reason: refused });
  expect(own.status).toBe('fulfilled');
  expect(upstream.sent).toHaveLength(2);
});

test.each(['legacy', 'both'] as const)(
  'a handshake of the older era goes as it is to an upstream that speaks %s',
  async (speaks) => {
    const { caller, upstream } = changeling(speaks);

    await caller.legacy(initialize);

    expect(upstream.sent.map(({ text }) => JSON.parse(text))).toEqual([
      { jsonrpc: '2.0', ...initialize },
    ]);
  },
);

test('an upstream of the older era is asked once, and has one handshake', async () => {
  const { caller, methods } = changeling('legacy');
  await caller.modern('tools/list');
  await caller.modern('tools/list');

  expect(methods()).toEqual([
    'server/discover',
    'initialize',
    'notifications/initialized',
    'tools/list',
    'tools/list',
  ]);
});

test('callers who come at once wait for one answer', async () => {
  const { caller, methods } = changeling('modern');
  await Promise.all([1, 2, 3].map(() => caller.modern('tools/list')));

  expect(methods().filter((method) => method === 'server/discover')).toHaveLength(1);
});

test('an upstream that becomes one of the older era is asked again when it refuses', async () => {
  const { caller, become, clock } = changeling('modern');
  await caller.modern('tools/list');
  become('legacy');
  const atOnce = await caller.modern('tools/list');
  clock.advance(30);
  const later = await caller.modern('tools/list');

  expect(atOnce.status).toBe(400);
  expect(await lastOf(later)).toMatchObject({
    result: { speaks: 'legacy', resultType: 'complete' },
  });
});

test('an upstream that becomes one of the modern era is found out when it refuses a handshake, or in an hour', async () => {
  const { caller, become, clock, methods } = changeling('legacy');
  await caller.modern('tools/list');
  become('modern');
  const opened = await caller.legacy(initialize);
  methods();
  clock.advance(3600);
  await caller.modern('tools/list');

  expect(opened.sessionId).toBeDefined();
  expect(methods()).toEqual(['server/discover', 'tools/list']);
});

test('an upstream of the modern era that learns the older one gets its handshakes again', async () => {
  const { caller, become, methods, clock } = changeling('modern');
  await caller.legacy(initialize);
  become('legacy');
  clock.advance(30);
  methods();

  const opened = await caller.legacy(initialize);

  expect(opened.sessionId).toBeUndefined();
  expect(methods()).toEqual(['server/discover', 'initialize']);
});

test('an upstream that knows neither handshake gets the caller’s own bytes', async () => {
  const { caller, methods } = changeling('neither');
  const answer = await caller.modern('tools/list');
  await caller.modern('tools/list');

  expect(answer.status).toBe(400);
  expect(methods()).toEqual(['server/discover', 'initialize', 'tools/list', 'tools/list']);
});

test('nothing is learnt of an upstream that is busy', async () => {
  const { caller, become, methods } = changeling('busy');
  const busy = await caller.modern('tools/list');
  become('modern');
  const answer = await caller.modern('tools/list');

  expect([busy.status, answer.status]).toEqual([503, 200]);
  expect(methods().filter((method) => method === 'server/discover')).toHaveLength(2);
});
