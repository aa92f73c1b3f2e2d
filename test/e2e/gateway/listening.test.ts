/** Unsolicited messages of a server keep arriving, whatever happens to the streams and sessions that carry them. */
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';

import { mcpCall } from '#support/mcp-call';
import { proxyProcess } from '#support/proxy-process';
import { patient } from '#support/patient';
import { eventStream, legacySession, talkingGateway } from '#support/talking-gateway';

const { upstream, gateway } = await talkingGateway();
beforeEach(() => {
  upstream.refusal = undefined;
  upstream.forget();
});

/** A session of the legacy era at the gateway. */
async function session() {
  const { endpoint, key } = gateway;
  const headers = await legacySession(endpoint, { key });
  return {
    listen: (lastEventId?: string) => eventStream(endpoint, { key }, { headers, lastEventId }),
    call: () => mcpCall(endpoint, { key, headers }),
  };
}

/** Sends `text` once the upstream has an open stream, and waits until it arrives. */
async function heard(text: string, by: () => string): Promise<void> {
  await vi.waitFor(() => expect(upstream.open()).toBe(1), patient);
  upstream.say(text);
  await vi.waitFor(() => expect(by()).toContain(text), patient);
}

test('GET stream: one that the upstream ended is resumed there after its last event', async () => {
  const { listen } = await session();
  const first = await listen();
  await heard('one', first.text);
  upstream.end();
  await first.ended;

  const again = await listen(first.ids().at(-1));
  await heard('two', again.text);

  expect(again.text()).not.toContain('one');
  expect(again.ids()).toEqual([expect.stringMatching(/^u\d+-1$/)]);
});

test('GET stream: a resumed one delivers missed events first, and then new ones', async () => {
  const { listen } = await session();
  const first = await listen();
  await heard('one', first.text);
  await heard('two', first.text);
  upstream.end();
  await first.ended;

  const again = await listen(first.ids()[0]);
  await heard('three', again.text);

  expect([...again.text().matchAll(/"data":"(\w+)"/g)].map(([, word]) => word)).toEqual([
    'two',
    'three',
  ]);
});

test('GET stream: a caller that lost a silent stream takes over its successor, without asking the upstream', async () => {
  const { listen } = await session();
  const first = await listen();
  await heard('one', first.text);
  upstream.end();
  await first.ended;
  const second = await listen(first.ids().at(-1));
  await vi.waitFor(() => expect(upstream.open()).toBe(1), patient);
  second.leave();
  await second.ended;
  upstream.say('meanwhile');
  const asked = upstream.asked();

  const third = await listen(first.ids().at(-1));
  await heard('now', third.text);

  expect(third.text()).toMatch(/meanwhile.*now/s);
  expect(upstream.asked()).toBe(asked);
});

test('GET stream: after a GET that the upstream refused, the next one reaches the upstream and resumes', async () => {
  const { listen } = await session();
  const first = await listen();
  await heard('one', first.text);
  upstream.end();
  await first.ended;
  upstream.refusal = 503;
  const refused = await listen(first.ids().at(-1));
  upstream.refusal = undefined;
  const again = await listen(first.ids().at(-1));
  await heard('two', again.text);

  expect(refused.status).toBeGreaterThanOrEqual(500);
  expect(again.text()).not.toContain('one');
});

test('GET stream: it ends once the upstream turns out to have forgotten the session', async () => {
  const { listen, call } = await session();
  const { ended } = await listen();
  await vi.waitFor(() => expect(upstream.open()).toBe(1), patient);
  upstream.forget('leave');

  expect((await call()).status).toBe(404);
  await ended;
  expect((await listen()).status).toBe(404);
});

test.each([
  [405, 405],
  [404, 404],
  // Without events.
  [200, 405],
])(
  'GET stream: an upstream’s status %i is passed on as %i, and the session continues',
  async (said, told) => {
    const { listen, call } = await session();
    upstream.refusal = said;

    expect((await listen()).status).toBe(told);
    expect((await call()).status).toBe(200);
  },
);

/** The real proxy at the gateway, or at the upstream itself, with the handshake made. */
async function assistant(where: 'gateway' | 'upstream') {
  const proxy = proxyProcess({
    args: [where === 'gateway' ? gateway.endpoint : upstream.url],
    env: { LATCHKEY_API_KEY: gateway.key, LATCHKEY_LOG_LEVEL: 'debug' },
  });
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  await proxy.handshake();
  await vi.waitFor(() => expect(upstream.asked()).toBeGreaterThan(0), patient);
  return { proxy, text: () => proxy.unread().join('\n') };
}

test.each(['gateway', 'upstream'] as const)(
  'assistant behind the %s: events arrive after the upstream ended its stream, and after it forgot sessions',
  async (where) => {
    const { text } = await assistant(where);
    await heard('one', text);

    upstream.end();
    await heard('two', text);
    upstream.forget();
    await heard('three', text);
    upstream.forget();
    await heard('four', text);

    expect(upstream.listened()).toBe(1);
    expect(text().match(/"data":"(one|two|three|four)"/g)).toHaveLength(4);
  },
);

test.each(['gateway', 'upstream'] as const)(
  'assistant behind the %s: a forgotten session found by a call gets a new GET stream, despite the open one',
  async (where) => {
    const { proxy, text } = await assistant(where);
    await heard('one', text);

    upstream.forget('leave');
    expect((await proxy.request('tools/list')).result).toEqual({ tools: [] });

    await heard('two', text);
  },
);

test.each([
  ['gateway', 405],
  ['upstream', 405],
  // Without events.
  ['upstream', 200],
] as const)(
  'upstream behind the %s without a GET stream (%i): asked once, and not again in later sessions',
  async (where, status) => {
    upstream.refusal = status;
    const before = upstream.asked();
    const { proxy } = await assistant(where);
    await vi.waitFor(() => expect(upstream.asked()).toBe(before + 1), patient);
    // Each call opens another session, and the stream of a session is asked for as soon as that is open: before the next
    // call is answered.
    for (let turn = 0; turn < 3; turn += 1) {
      upstream.forget();
      expect((await proxy.request('tools/list')).result).toEqual({ tools: [] });
    }

    expect(upstream.asked()).toBe(before + 1);
  },
);
