import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { messageOf } from '#mcp/message';
import { LegacyLink, unaskedStream } from '#server/gateway/legacy-link';
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
      sent.includes('tools/list')
        ? { mediaType: 'text/event-stream', text: `data: ${text}\n\n` }
        : { status: 202 },
    );
    const link = new LegacyLink({
      upstream,
      client: { capabilities: '{"elicitation":{}}', clientInfo: undefined, logLevel: undefined },
      initialized: messageOf('{"jsonrpc":"2.0","id":0,"result":{}}'),
      sessionId: undefined,
    });
    const { signal } = new AbortController();
    const list = messageOf(`{"jsonrpc":"2.0","id":${link.nextId()},"method":"tools/list"}`);
    await link.start(list, { headers: {}, signal });
    await vi.advanceTimersByTimeAsync(0);

    const answered = upstream.sent.map((sent) => parsedMessage(sent.text));
    expect(answered.find(({ id }) => id === 'asked')?.error?.code).toBe(code);
  },
);
