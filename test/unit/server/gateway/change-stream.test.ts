import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { ChangeStream } from '#server/gateway/change-stream';
import { type SaidMessage, parsedMessage } from '#support/era-caller';
import { eventStream, fakeUpstream } from '#support/fake-upstream';

const toolsChanged = { method: 'notifications/tools/list_changed' };
const refusal = { error: { code: -32602, message: 'no' } };

/** A listener at an upstream whose streams are written by hand. */
function following() {
  const streams: {
    filter: unknown;
    signal: AbortSignal;
    say: (message: object) => Promise<void>;
    end: () => Promise<void>;
  }[] = [];
  const upstream = fakeUpstream(({ text, signal }) => {
    const { params }: SaidMessage = JSON.parse(text);
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    signal.addEventListener('abort', () => void writer.abort().catch(() => undefined));
    streams.push({
      filter: params?.['notifications'],
      signal,
      say: (message) =>
        writer
          .write(Buffer.from(eventStream(JSON.stringify({ jsonrpc: '2.0', ...message }))))
          .catch(() => undefined),
      end: () => writer.close().catch(() => undefined),
    });
    return { mediaType: 'text/event-stream', text: readable };
  });
  const client = { capabilities: '{}', clientInfo: undefined, logLevel: undefined };
  const changes = new ChangeStream(() => client);
  const gone = new AbortController();
  const heard: unknown[] = [];
  const bodies: string[] = [];
  const follow = async () => {
    const { signal } = gone;
    for await (const message of changes.follow(['tools'], { upstream, signal })) {
      bodies.push(message.body.toString());
      const { method, params } = parsedMessage(message.body.toString());
      heard.push(params?.['uri'] ?? method);
    }
  };
  void follow();
  const stream = (index: number) => {
    const found = streams[index];
    if (!found) throw new Error(`no stream ${index}`);
    return found;
  };
  const settled = () => vi.advanceTimersByTimeAsync(0);
  const acknowledge = async (index: number) => {
    await stream(index).say({
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications: stream(index).filter },
    });
    await settled();
  };
  const areOver = () => streams.map(({ signal }) => signal.aborted);
  return { changes, streams, stream, acknowledge, heard, bodies, settled, gone, areOver };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('change stream: resources subscribed at the same time both count, in whatever order they are acknowledged', async () => {
  const { changes, stream, acknowledge, settled, areOver } = following();
  await settled();
  await acknowledge(0);

  const both = [changes.subscribe('a:b'), changes.subscribe('c:d')];
  await settled();
  await acknowledge(2);

  expect(await Promise.all(both)).toEqual([true, true]);
  expect(areOver()).toEqual([true, true, false]);
  void changes.subscribe('e:f');
  await settled();
  expect(stream(3).filter).toMatchObject({ resourceSubscriptions: ['a:b', 'c:d', 'e:f'] });
});

test('change stream: a refused resource leaves the others subscribed, on the stream that they had', async () => {
  const { changes, stream, acknowledge, settled, heard, areOver } = following();
  await settled();
  await acknowledge(0);

  const refused = changes.subscribe('a:b');
  await settled();
  await stream(1).say({ id: 'listens-2', ...refusal });
  await stream(1).end();
  expect(await refused).toBe(false);
  await stream(0).say(toolsChanged);
  await settled();
  const subscribed = changes.subscribe('c:d');
  await settled();
  await acknowledge(2);
  await vi.advanceTimersByTimeAsync(60_000);

  expect(await subscribed).toBe(true);
  expect(heard).toEqual([toolsChanged.method]);
  expect(areOver()[0]).toBe(true);
  expect(areOver().slice(2)).toEqual([false]);
});

test('change stream: if the stream ended that a refused one was to replace, it is opened again', async () => {
  const { changes, stream, streams, acknowledge, settled } = following();
  await settled();
  await acknowledge(0);

  const refused = changes.subscribe('a:b');
  await settled();
  await stream(0).end();
  await settled();
  await stream(1).say({ id: 'listens-2', ...refusal });
  await stream(1).end();
  expect(await refused).toBe(false);
  await vi.advanceTimersByTimeAsync(1000);

  expect(streams).toHaveLength(3);
  expect(stream(2).filter).toEqual({ toolsListChanged: true });
});

test('change stream: a subscription whose listener leaves before it is acknowledged is kept for the next one', async () => {
  const { changes, acknowledge, settled, gone } = following();
  await settled();
  await acknowledge(0);

  const subscribed = changes.subscribe('a:b');
  await settled();
  gone.abort();

  expect(await subscribed).toBe(true);
});

test('change stream: an upstream that ends each stream at once has its lists announced ever less often', async () => {
  const { streams, stream, acknowledge, settled, heard } = following();
  await settled();
  for (let second = 0; second < 120; second += 1) {
    const latest = streams.length - 1;
    await acknowledge(latest);
    await stream(latest).end();
    await vi.advanceTimersByTimeAsync(1000);
  }

  expect(heard.length).toBeGreaterThan(3);
  expect(heard.length).toBeLessThan(10);
});

test('107: change stream: at most two streams are open at an upstream that acknowledges only the first', async () => {
  const { changes, streams, acknowledge, settled, heard, stream, areOver } = following();
  await settled();
  await acknowledge(0);

  for (let n = 1; n <= 20; n += 1) {
    void changes.subscribe('a:b');
    await settled();
    changes.unsubscribe('a:b');
    await settled();
  }
  const open = areOver().filter((isOver) => !isOver).length;
  await stream(0).say(toolsChanged);
  await settled();

  expect([streams.length, open]).toEqual([41, 2]);
  expect(heard).toEqual([toolsChanged.method]);
});

test('change stream: what changed while a stream was away is reported, also if a subscription replaces the new stream', async () => {
  const { changes, stream, acknowledge, heard, settled } = following();
  await settled();
  await acknowledge(0);
  await stream(0).end();
  await vi.advanceTimersByTimeAsync(1000);
  void changes.subscribe('a:b');
  await settled();
  await acknowledge(2);

  expect(heard).toEqual([toolsChanged.method, 'a:b']);
});

test('change stream: what changed is reported if a stream breaks off while the next one waits', async () => {
  const { changes, stream, acknowledge, heard, settled } = following();
  await settled();
  await acknowledge(0);
  void changes.subscribe('a:b');
  await settled();
  await stream(0).end();
  await settled();
  await acknowledge(1);

  expect(heard).toEqual([toolsChanged.method, 'a:b']);
});

test('change stream: a subscription that is not acknowledged within 30 seconds is refused', async () => {
  const { changes, acknowledge, settled } = following();
  await settled();
  await acknowledge(0);

  const subscribed = changes.subscribe('a:b');
  await vi.advanceTimersByTimeAsync(30_000);

  expect(await subscribed).toBe(false);
});

test('107: of the resources that a session subscribes to, the URIs have a limit together', async () => {
  const client = { capabilities: '{}', clientInfo: undefined, logLevel: undefined };
  const changes = new ChangeStream(() => client);
  const long = (end: number) => `file:///${'x'.repeat(8000)}${end}`;
  const subscribed: boolean[] = [];
  for (const n of [1, 2, 3, 4, 5, 6, 7, 8, 9, 1]) subscribed.push(await changes.subscribe(long(n)));
  const short = await changes.subscribe('file:///c');
  changes.unsubscribe(long(1));

  expect(subscribed).toEqual([...Array(8).fill(true), false, true]);
  expect([short, await changes.subscribe(long(9))]).toEqual([true, true]);
});

test('107: change stream: a long notification of a change is reduced to the change', async () => {
  const { changes, stream, acknowledge, settled, gone, bodies } = following();
  await settled();
  await acknowledge(0);
  void changes.subscribe('a:b');
  await settled();
  await acknowledge(1);
  const _meta = { text: 'x'.repeat(1024 * 1024) };

  await stream(1).say({ ...toolsChanged, params: { _meta } });
  const uri = 'x'.repeat(1024 * 1024);
  await stream(1).say({ method: 'notifications/resources/updated', params: { uri } });
  await stream(1).say({ method: 'notifications/resources/updated', params: { uri: 'a:b', _meta } });
  await settled();
  gone.abort();

  expect(bodies.map((body) => parsedMessage(body))).toEqual([
    { jsonrpc: '2.0', ...toolsChanged },
    { jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri: 'a:b' } },
  ]);
});
