import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { messageOf } from '#mcp/message';
import { BodyMemory } from '#server/gateway/body-memory';
import { HeldAnswers } from '#server/gateway/held-answers';
import { LegacyLink } from '#server/gateway/legacy-link';
import { unaskedStream } from '#server/gateway/unasked-stream';
import { parsedMessage } from '#support/era-caller';
import { type ScriptedAnswer, fakeUpstream, upstreamAnswer } from '#support/fake-upstream';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('GET stream: an upstream that ends it immediately is asked, and its lists announced, ever less often', async () => {
  const gone = new AbortController();
  const reopened = vi.fn();
  const send = vi.fn(async () => upstreamAnswer({ mediaType: 'text/event-stream' }));
  const take = () => undefined;

  const isThere = unaskedStream(send, { take, reopened, over: take, signal: gone.signal });
  await vi.advanceTimersByTimeAsync(120_000);
  gone.abort();

  expect(await isThere).toBe(true);
  expect(reopened.mock.calls.length).toBeLessThan(10);
  expect(send).toHaveBeenCalledTimes(reopened.mock.calls.length + 1);
});

test('link: a request of the upstream that is never answered is given up and cancelled', async () => {
  const upstream = fakeUpstream(({ text, signal }): ScriptedAnswer | Promise<ScriptedAnswer> => {
    if (!text.includes('resources/subscribe')) return { status: 202 };
    const { promise, reject } = Promise.withResolvers<ScriptedAnswer>();
    signal.addEventListener('abort', () => reject(signal.reason));
    return promise;
  });
  const link = new LegacyLink({
    upstream,
    client: { capabilities: '{}', clientInfo: undefined, logLevel: undefined },
    initialized: messageOf('{"jsonrpc":"2.0","id":0,"result":{}}'),
    protocolVersion: '2025-06-18',
    sessionId: 'session-1',
  });

  const response = link.request('resources/subscribe', '{"uri":"a:b"}');
  await vi.advanceTimersByTimeAsync(30_000);

  expect(await response).toBeUndefined();
  expect(upstream.sent.map(({ text }) => text).join()).toContain('notifications/cancelled');
  expect(link.isBusy).toBe(false);
});

test('107: link: of several responses to one request, the first counts', async () => {
  const said = '{"jsonrpc":"2.0","id":1,"result":{}}';
  const upstream = fakeUpstream(() => ({
    mediaType: 'text/event-stream',
    text: `data: ${said}\n\n`.repeat(50),
  }));
  const link = new LegacyLink({
    upstream,
    client: { capabilities: '{}', clientInfo: undefined, logLevel: undefined },
    initialized: messageOf('{"jsonrpc":"2.0","id":0,"result":{}}'),
    protocolVersion: '2025-06-18',
    sessionId: undefined,
  });
  const { signal } = new AbortController();

  const started = await link.start(
    messageOf(`{"jsonrpc":"2.0","id":${link.nextId()},"method":"tools/list"}`),
    { headers: {}, signal },
  );
  await vi.advanceTimersByTimeAsync(0);

  const kept = started.outcome === 'started' ? started.call.inbox.rest() : [];
  expect(kept).toHaveLength(1);
});

test.each([
  [1_000_000, undefined],
  [1_048_576, -32602],
])(
  '107: link: a question with %i characters, which waits for its caller, is answered with %j',
  async (length, code) => {
    const text = JSON.stringify({
      jsonrpc: '2.0',
      id: 'asked',
      method: 'elicitation/create',
      params: { message: 'x'.repeat(length) },
    });
    const upstream = fakeUpstream(({ text: sent }) =>
      sent.includes('tools/call')
        ? { mediaType: 'text/event-stream', text: `data: ${text}\n\n` }
        : { status: 202 },
    );
    const link = new LegacyLink({
      upstream,
      client: { capabilities: '{"elicitation":{}}', clientInfo: undefined, logLevel: undefined },
      initialized: messageOf('{"jsonrpc":"2.0","id":0,"result":{}}'),
      protocolVersion: '2025-06-18',
      sessionId: undefined,
    });
    const { signal } = new AbortController();
    const call = messageOf(`{"jsonrpc":"2.0","id":${link.nextId()},"method":"tools/call"}`);
    await link.start(call, { headers: {}, signal });
    await vi.advanceTimersByTimeAsync(0);

    const answered = upstream.sent.map((sent) => parsedMessage(sent.text));
    expect(answered.find(({ id }) => id === 'asked')?.error?.code).toBe(code);
  },
);

const mib = 1024 * 1024;
const tooMany = expect.objectContaining({ code: 'too_many_requests' });

/** A link that was opened by a call of `key_a`, which is still open. */
function countedLink(script: Parameters<typeof fakeUpstream>[0], sessionId?: string) {
  const memory = new BodyMemory({ what: 'responses' });
  const ended = vi.fn();
  const opening = new HeldAnswers(memory, { organization: 'evil', caller: 'key_a' }, ended);
  const link = new LegacyLink({
    upstream: opening.counted(fakeUpstream(script)),
    client: { capabilities: '{}', clientInfo: undefined, logLevel: undefined },
    initialized: messageOf('{"jsonrpc":"2.0","id":0,"result":{}}'),
    protocolVersion: '2025-06-18',
    sessionId,
  });
  const start = async (giveUp?: () => void) => {
    const list = messageOf(`{"jsonrpc":"2.0","id":${link.nextId()},"method":"tools/list"}`);
    const { signal } = new AbortController();
    const started = await link.start(list, { headers: {}, signal, giveUp });
    if (started.outcome !== 'started') throw new Error(started.outcome);
    return started.call;
  };
  /** Others take so much memory that what `key_a` holds is given up. */
  const exhaust = () => {
    const takes = (organization: string, caller: string) =>
      memory.body({ organization, caller }, () => undefined).take(58 * mib);
    for (let key = 1; key < 8; key += 1) takes('evil', `key_${key}`);
    takes('good', 'key');
  };
  return { link, memory, opening, ended, start, exhaust };
}

/** Chunks of `bytes` in all, and then nothing until `signal` aborts. */
async function* stalled(bytes: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for (let sent = 0; sent < bytes; sent += mib) yield Buffer.alloc(mib, 'x');
  await new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });
}

test.each([
  ['a call', undefined],
  ['the stream of no call', 'session-1'],
])(
  '108: link: memory of %s is given up by ending its reading, not the call that opened the link',
  async (_, sessionId) => {
    const signals: AbortSignal[] = [];
    const { link, memory, opening, ended, start, exhaust } = countedLink(
      ({ signal, method, text }) => {
        if (method !== 'GET' && !text.includes('tools/list')) return { status: 202 };
        signals.push(signal);
        const mediaType = method === 'GET' ? 'text/event-stream' : 'application/json';
        return { mediaType, text: stalled(62 * mib, signal) };
      },
      sessionId,
    );
    const endCaller = vi.fn();
    await (sessionId === undefined ? start(endCaller) : link.listen());
    await vi.advanceTimersByTimeAsync(0);
    // The memory still counts after the call that opened the link is over.
    const before = memory.bytesOf('evil');
    opening.over();
    expect([before, memory.bytesOf('evil')]).toEqual(Array(2).fill(62 * mib - 64 * 1024));

    exhaust();
    await vi.advanceTimersByTimeAsync(0);

    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect(ended).not.toHaveBeenCalled();
    expect(memory.bytesOf('evil')).toBe(7 * (58 * mib - 64 * 1024));
    expect(endCaller).toHaveBeenCalledTimes(sessionId === undefined ? 1 : 0);
    void link.close();
  },
);

test.each(['application/json', 'text/event-stream'])(
  '107: link: of twenty responses of 5 MiB that nobody takes, 64 MiB are kept (%s)',
  async (mediaType) => {
    const { memory, start } = countedLink(({ text }) => {
      const { id } = parsedMessage(text);
      if (id === undefined) return { status: 202 };
      const said = JSON.stringify({ jsonrpc: '2.0', id, result: { text: 'x'.repeat(5 * mib) } });
      return { mediaType, text: mediaType === 'application/json' ? said : `data: ${said}\n\n` };
    });
    const calls = [];
    for (let count = 0; count < 20; count += 1) {
      calls.push(await start());
      await vi.advanceTimersByTimeAsync(0);
      expect(memory.size.bytes).toBeLessThanOrEqual(64 * mib);
    }
    expect(memory.size.bytes).toBeGreaterThan(50 * mib);

    const outcomes = await Promise.allSettled(calls.map(async ({ inbox }) => inbox.next()));
    const refusals = outcomes.filter(({ status }) => status === 'rejected');
    expect(refusals).toEqual(refusals.map(() => ({ status: 'rejected', reason: tooMany })));
    expect(refusals).toHaveLength(8);
    // A message that was taken counts until its reader asks for the next one, or the call is over.
    expect(memory.size.bytes).toBeGreaterThan(50 * mib);
    for (const call of calls) call.over();
    expect(memory.size.bytes).toBe(0);
  },
);

test('107: link: what an inbox keeps is given up by ending the call it is of', async () => {
  const { memory, ended, start, exhaust } = countedLink(({ text }) => {
    const { id } = parsedMessage(text);
    if (id === undefined) return { status: 202 };
    return { text: JSON.stringify({ jsonrpc: '2.0', id, result: { text: 'x'.repeat(60 * mib) } }) };
  });
  const endCaller = vi.fn();
  const call = await start(endCaller);
  await vi.advanceTimersByTimeAsync(0);
  expect(memory.size.bytes).toBeGreaterThan(59 * mib);

  exhaust();

  expect(endCaller).toHaveBeenCalledExactlyOnceWith(tooMany);
  expect(call.ended.aborted).toBe(true);
  expect(ended).not.toHaveBeenCalled();
  await expect(call.inbox.next()).rejects.toEqual(tooMany);
});

test('link: requests about tasks have ids that no other link uses, because an upstream may tell all links of their progress', () => {
  const handshake = {
    upstream: fakeUpstream(() => ({ status: 202 })),
    client: { capabilities: '{}', clientInfo: undefined, logLevel: undefined },
    initialized: messageOf('{"jsonrpc":"2.0","id":0,"result":{}}'),
    protocolVersion: '2025-11-25',
    sessionId: undefined,
  };
  const links = [new LegacyLink(handshake), new LegacyLink(handshake)];

  const ofTasks = links.map((link) => link.nextId({ isOfTask: true }));

  expect(new Set(ofTasks).size).toBe(2);
  expect(links.map((link) => link.nextId())).toEqual(['1', '1']);
});

/** A link whose upstream sends a request before it answers `tools/list`, and answers the list only if it `goesOn`. */
async function askedInList(method: string, { goesOn }: { readonly goesOn: boolean }) {
  const asked = `data: {"jsonrpc":"2.0","id":"asked","method":"${method}"}\n\n`;
  const listed = 'data: {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}\n\n';
  const never = Promise.withResolvers<ScriptedAnswer>();
  const upstream = fakeUpstream(({ text }): ScriptedAnswer | Promise<ScriptedAnswer> => {
    if (!text.includes('"tools/')) return { status: 202 };
    if (text.includes('tools/call')) return never.promise;
    return { mediaType: 'text/event-stream', text: `${asked}${goesOn ? listed : ''}` };
  });
  const link = new LegacyLink({
    upstream,
    client: {
      capabilities: '{"roots":{},"elicitation":{}}',
      clientInfo: undefined,
      logLevel: undefined,
    },
    initialized: messageOf('{"jsonrpc":"2.0","id":0,"result":{}}'),
    protocolVersion: '2025-06-18',
    sessionId: undefined,
  });
  const { signal } = new AbortController();
  const start = (what: string) =>
    link.start(messageOf(`{"jsonrpc":"2.0","id":${link.nextId()},"method":"${what}"}`), {
      headers: {},
      signal,
    });
  const list = await start('tools/list');
  await vi.advanceTimersByTimeAsync(0);
  const refused = () =>
    upstream.sent.map(({ text }) => parsedMessage(text)).find(({ id }) => id === 'asked')?.error;
  return { list, start, refused };
}

test('link: a question for roots while a list is made waits for the next call', async () => {
  const { list, start, refused } = await askedInList('roots/list', { goesOn: true });
  const listed = list.outcome === 'started' ? list.call.inbox.rest() : [];
  expect(listed.map(({ envelope }) => envelope.kind)).toEqual(['response']);
  await vi.advanceTimersByTimeAsync(5000);

  const called = await start('tools/call');

  const got = called.outcome === 'started' ? called.call.inbox.rest() : [];
  expect(got.map(({ envelope }) => envelope.method)).toEqual(['roots/list']);
  expect(refused()).toBeUndefined();
});

test('link: a question for roots that a list seems to wait for is refused', async () => {
  const { list, refused } = await askedInList('roots/list', { goesOn: false });
  expect(list.outcome).toBe('started');
  expect(refused()).toBeUndefined();

  await vi.advanceTimersByTimeAsync(1000);

  expect(refused()?.code).toBe(-32601);
});

test('link: no list makes the caller answer a form', async () => {
  const { refused } = await askedInList('elicitation/create', { goesOn: true });

  expect(refused()?.code).toBe(-32601);
});
