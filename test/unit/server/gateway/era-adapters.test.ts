import { describe, expect, test } from 'vitest';

import { EraAdapters } from '#server/gateway/era-adapters';
import { type SaidMessage, eraCaller, lastOf, messagesOf } from '#support/era-caller';
import { type ScriptedAnswer, eventStream, fakeUpstream } from '#support/fake-upstream';
import { stillClock } from '#support/still-clock';

describe('detection of the era of an upstream', () => {
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
      // Legacy servers that look at the version do this.
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
    'an upstream that speaks %s is probed once, and then gets the caller’s own bytes',
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

  test('the answer to one caller’s probe goes to no other caller', async () => {
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
    'a legacy handshake is forwarded unchanged to an upstream that speaks %s',
    async (speaks) => {
      const { caller, upstream } = changeling(speaks);

      await caller.legacy(initialize);

      expect(upstream.sent.map(({ text }) => JSON.parse(text))).toEqual([
        { jsonrpc: '2.0', ...initialize },
      ]);
    },
  );

  test('a legacy upstream is probed once, and gets one handshake', async () => {
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

  test('callers that arrive at the same time wait for one probe', async () => {
    const { caller, methods } = changeling('modern');
    await Promise.all([1, 2, 3].map(() => caller.modern('tools/list')));

    expect(methods().filter((method) => method === 'server/discover')).toHaveLength(1);
  });

  test('an upstream that becomes legacy is probed again when it refuses a modern request', async () => {
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

  test('an upstream that becomes modern is detected when it refuses a handshake, or after an hour', async () => {
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

  test('a modern upstream that learns the legacy era gets its handshakes again', async () => {
    const { caller, become, methods, clock } = changeling('modern');
    await caller.legacy(initialize);
    become('legacy');
    clock.advance(30);
    methods();

    const opened = await caller.legacy(initialize);

    expect(opened.sessionId).toBeUndefined();
    expect(methods()).toEqual(['server/discover', 'initialize']);
  });

  test('an upstream that refuses both handshakes gets the caller’s own bytes', async () => {
    const { caller, methods } = changeling('neither');
    const answer = await caller.modern('tools/list');
    await caller.modern('tools/list');

    expect(answer.status).toBe(400);
    expect(methods()).toEqual(['server/discover', 'initialize', 'tools/list', 'tools/list']);
  });

  test('a busy upstream leaves its era unknown', async () => {
    const { caller, become, methods } = changeling('busy');
    const busy = await caller.modern('tools/list');
    become('modern');
    const answer = await caller.modern('tools/list');

    expect([busy.status, answer.status]).toEqual([503, 200]);
    expect(methods().filter((method) => method === 'server/discover')).toHaveLength(2);
  });
});

describe('limits of one message', () => {
  /** A legacy server that accepts every subscription, and tells `heard` how many there were. */
  function subscribable(heard: (count: number) => void = () => undefined) {
    const subscribed: unknown[] = [];
    const upstream = fakeUpstream(({ text, method, signal }): ScriptedAnswer => {
      if (method === 'DELETE') return { status: 204 };
      if (method === 'GET') return { mediaType: 'text/event-stream', text: silence(signal) };
      const { id, method: asked, params }: SaidMessage = JSON.parse(text);
      const say = (rest: object) => ({ text: JSON.stringify({ jsonrpc: '2.0', id, ...rest }) });
      if (id === undefined) return { status: 202 };
      if (asked === 'server/discover') return say({ error: { code: -32601, message: 'no' } });
      if (asked === 'resources/subscribe') heard(subscribed.push(params?.['uri']));
      const capabilities = { resources: { subscribe: true } };
      if (asked === 'initialize')
        return {
          ...say({ result: { protocolVersion: '2025-06-18', capabilities } }),
          sessionId: 's',
        };
      return say({ result: {} });
    });
    return { upstream, subscribed };
  }

  async function* silence(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    yield Buffer.from(
      eventStream('{"jsonrpc":"2.0","method":"notifications/message","params":{}}'),
    );
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  }

  const listenTo = (uris: readonly string[]) => ({
    notifications: { resourceSubscriptions: uris },
  });
  const uris = (count: number) => Array.from({ length: count }, (_, at) => `file:///${at}`);

  test('a message subscribes to a thousand of its resources, and not to the rest', async () => {
    const { upstream, subscribed } = subscribable();
    const leaving = new AbortController();
    const { signal } = leaving;
    const caller = eraCaller(upstream);
    const answer = await caller.modern('subscriptions/listen', listenTo(uris(1500)), { signal });
    const { value } = await messagesOf(answer).next();
    leaving.abort();

    expect(value).toMatchObject({ params: listenTo(uris(1000)) });
    expect(subscribed).toEqual(uris(1000));

    await caller.eras.close();
  });

  test('subscribing stops when the caller disconnects', async () => {
    const leaving = new AbortController();
    const { signal } = leaving;
    const { upstream, subscribed } = subscribable((count) => count === 10 && leaving.abort());
    const caller = eraCaller(upstream);
    const answer = await caller.modern('subscriptions/listen', listenTo(uris(900)), { signal });
    await messagesOf(answer).next();

    expect(subscribed).toEqual(uris(10));

    await caller.eras.close();
  });

  test('client information over the size limit is refused', async () => {
    const { upstream } = subscribable();
    const caller = eraCaller(upstream);
    const meta = {
      'io.modelcontextprotocol/clientInfo': { name: 'n'.repeat(70_000), version: '1' },
    };

    await expect(caller.modern('tools/list', {}, { meta })).rejects.toMatchObject({
      code: 'bad_params',
    });

    await caller.eras.close();
  });
});

describe('the link that a call uses', () => {
  /** A server that speaks only one era, and whose answers contain `name`. */
  function server(era: 'legacy' | 'modern', name: string) {
    return fakeUpstream(({ text, method, headers, signal }): ScriptedAnswer => {
      if (method !== 'POST') return { status: 405 };
      const { id, method: asked }: SaidMessage = JSON.parse(text);
      const say = (rest: object, status = 200) => ({
        status,
        text: JSON.stringify({ jsonrpc: '2.0', id, ...rest }),
      });
      if (id === undefined) return { status: 202 };
      const isModern = headers['mcp-protocol-version'] === '2026-07-28';
      if (isModern !== (era === 'modern')) return say({ error: { code: -32022 } }, 400);
      const capabilities = { tools: { listChanged: true } };
      if (asked === 'server/discover')
        return say({ result: { supportedVersions: ['2026-07-28'], capabilities } });
      if (asked === 'initialize')
        return say({ result: { protocolVersion: '2025-06-18', capabilities } });
      if (asked !== 'subscriptions/listen') return say({ result: { name } });
      return { mediaType: 'text/event-stream', text: listening(name, signal) };
    });
  }

  async function* listening(name: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const says = (method: string, params: object) =>
      Buffer.from(eventStream(JSON.stringify({ jsonrpc: '2.0', method, params })));
    const notifications = { toolsListChanged: true };
    yield says('notifications/subscriptions/acknowledged', { notifications });
    yield says('notifications/message', { data: name });
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  }

  const initialize = {
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {} },
  };

  const all = ['mcp:tools:read', 'mcp:tools:execute'] as const;
  const less = ['mcp:tools:read'] as const;

  test('a modern call never uses the handshake of another set of scopes', async () => {
    const eras = new EraAdapters(stillClock());
    await eraCaller(server('legacy', 'wide'), { eras, scopes: all }).modern('tools/list');
    const later = eraCaller(server('legacy', 'narrow'), { eras, scopes: less });

    expect(await lastOf(await later.modern('tools/list'))).toMatchObject({
      result: { name: 'narrow' },
    });
  });

  test.each([
    ['is pointed elsewhere', { upstream: { kind: 'http', url: 'http://127.0.0.1:2' } }],
    ['withholds changed tools', { changedTools: 'withhold' }],
  ] as const)('a modern call after its server %s uses the new address', async (_what, change) => {
    const eras = new EraAdapters(stillClock());
    await eraCaller(server('legacy', 'before'), { eras }).modern('tools/list');
    const later = eraCaller(server('legacy', 'after'), { eras, target: change });

    expect(await lastOf(await later.modern('tools/list'))).toMatchObject({
      result: { name: 'after' },
    });
  });

  test('each request of a legacy session uses its own address, not that of the handshake', async () => {
    const eras = new EraAdapters(stillClock());
    const first = eraCaller(server('modern', 'wide'), { eras, scopes: all });
    const { sessionId = '' } = await first.legacy(initialize);
    const later = eraCaller(server('modern', 'narrow'), { eras, scopes: less });
    const within = { headers: { 'mcp-session-id': sessionId } };
    const leaving = new AbortController();
    const unasked = await later.within('GET', { ...within, signal: leaving.signal });

    expect(await lastOf(await later.legacy({ id: 2, method: 'tools/list' }, within))).toMatchObject(
      {
        result: { name: 'narrow' },
      },
    );

    const { value } = await messagesOf(unasked).next();
    leaving.abort();

    expect(value).toMatchObject({ method: 'notifications/message', params: { data: 'narrow' } });
  });
});
