import { expect, test } from 'vitest';
import { ChangeStream } from '#proxy/pipeline/change-stream';
import { jsonLinesLog } from '#proxy/log/log';
import { fakeClock } from '#support/fake-clock';
import { listener, scriptedUpstream, type Said } from '#support/scripted-upstream';

type Stream = {
  filter: unknown;
  say: (said: Said) => Promise<void>;
  /** Ends the stream, as the server does. */
  end: (answer?: Said) => void;
  /** Whether we ended the stream. */
  ended: () => boolean;
};

/** An assistant that follows a server which acknowledges each subscription when told to. */
function following(listed: string[]) {
  const streams: Stream[] = [];
  const upstream = scriptedUpstream(async ({ params }, signal, say) => {
    const filter = params?.['notifications'];
    const ended = Promise.withResolvers<Said[]>();
    signal.addEventListener('abort', () => ended.resolve([]));
    const end = (answer?: Said) => ended.resolve(answer ? [answer] : []);
    streams.push({ filter, say, end, ended: () => signal.aborted });
    return ended.promise;
  });
  const clock = fakeClock();
  const log = jsonLinesLog('error', () => undefined);
  const changes = new ChangeStream(listed, () => ({}), { upstream, clock, log });
  const over = new AbortController();
  const assistant = listener();
  const followed = changes.follow(assistant.deliver, over.signal);
  const heard = () => assistant.said.map(({ method, params }) => params?.['uri'] ?? method);
  const stream = (index: number): Stream => {
    const found = streams[index];
    if (!found) throw new Error(`no stream ${index}`);
    return found;
  };
  const acknowledge = async (index: number, notifications = stream(index).filter) =>
    stream(index).say({
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications },
    });
  return { streams, stream, clock, changes, over, followed, heard, acknowledge };
}

const toolsChanged = 'notifications/tools/list_changed';

test('change stream: it subscribes to the lists that may change, and delivers their notifications', async () => {
  const { stream, heard, acknowledge, over, followed } = following(['tools', 'prompts']);
  await acknowledge(0);
  await stream(0).say({ method: toolsChanged });
  over.abort();
  await followed;

  expect(stream(0).filter).toEqual({ toolsListChanged: true, promptsListChanged: true });
  expect(heard()).toEqual([toolsChanged]);
  expect(stream(0).ended()).toBe(true);
});

test('change stream: none is opened if the server reports no changes', () => {
  expect(following([]).streams).toEqual([]);
});

test('change stream: a new resource opens a new stream, and the old one ends once that is acknowledged', async () => {
  const { stream, changes, acknowledge } = following(['tools']);
  await acknowledge(0);

  const subscribed = changes.subscribe('memo://a');
  const before = stream(0).ended();
  await acknowledge(1);

  expect(await subscribed).toBe(true);
  expect(stream(1).filter).toEqual({ toolsListChanged: true, resourceSubscriptions: ['memo://a'] });
  expect([before, stream(0).ended(), stream(1).ended()]).toEqual([false, true, false]);
});

test('change stream: a resource that the server does not acknowledge is not requested again', async () => {
  const { stream, changes, acknowledge } = following(['tools']);
  await acknowledge(0);

  const subscribed = changes.subscribe('memo://a');
  await acknowledge(1, { toolsListChanged: true });
  const other = changes.subscribe('memo://b');
  await acknowledge(2);

  expect([await subscribed, await other]).toEqual([false, true]);
  expect(stream(2).filter).toMatchObject({ resourceSubscriptions: ['memo://b'] });
});

test('change stream: it ends with the last subscription', async () => {
  const { stream, streams, changes, acknowledge } = following([]);
  const subscribed = changes.subscribe('memo://a');
  await acknowledge(0);
  await subscribed;

  changes.unsubscribe('memo://a');

  expect(stream(0).ended()).toBe(true);
  expect(streams).toHaveLength(1);
});

test('change stream: after an interruption it is reopened, and everything is reported as changed', async () => {
  const { stream, clock, changes, heard, acknowledge } = following(['tools']);
  void changes.subscribe('memo://a');
  await acknowledge(1);

  stream(1).end();
  await clock.advance(1);
  await acknowledge(2);

  expect(stream(2).filter).toEqual(stream(1).filter);
  expect(heard()).toEqual([toolsChanged, 'memo://a']);
});

test('change stream: an unreachable server is retried with growing pauses', async () => {
  const { stream, streams, clock } = following(['tools']);
  const counts: number[] = [];
  stream(0).end();
  for (const seconds of [1, 1, 1, 4]) {
    await clock.advance(seconds);
    counts.push(streams.length);
    streams.at(-1)?.end();
  }

  expect(counts).toEqual([2, 2, 3, 4]);
});

test('change stream: a server that refuses or acknowledges nothing is not retried', async () => {
  const refusing = following(['tools']);
  refusing.stream(0).end({ id: 'latchkey-listens-1', error: { code: -32601, message: 'no' } });
  const silent = following(['tools']);
  await silent.acknowledge(0, {});
  silent.stream(0).end({ id: 'latchkey-listens-1', result: {} });
  await refusing.clock.advance(60);
  await silent.clock.advance(60);

  expect([refusing.streams.length, silent.streams.length]).toEqual([1, 1]);
});

test('change stream: two simultaneous subscriptions both succeed, in whatever order they are acknowledged', async () => {
  const { stream, changes, acknowledge, clock } = following(['tools']);
  await acknowledge(0);

  const both = [changes.subscribe('memo://a'), changes.subscribe('memo://b')];
  await acknowledge(2);
  stream(1).end();
  await clock.settled();

  expect(await Promise.all(both)).toEqual([true, true]);
  expect(stream(2).filter).toMatchObject({ resourceSubscriptions: ['memo://a', 'memo://b'] });
  expect([0, 1, 2].map((index) => stream(index).ended())).toEqual([true, true, false]);
  void changes.subscribe('memo://c');
  expect(stream(3).filter).toMatchObject({
    resourceSubscriptions: ['memo://a', 'memo://b', 'memo://c'],
  });
});

test('change stream: what changed while a stream was away is reported, also if a subscription replaces the new stream', async () => {
  const { stream, changes, acknowledge, heard, clock } = following(['tools']);
  await acknowledge(0);
  stream(0).end();
  await clock.advance(1);
  void changes.subscribe('memo://a');
  await acknowledge(2);

  expect(heard()).toEqual([toolsChanged, 'memo://a']);
});

test('change stream: what changed is reported if a stream breaks off while the next one waits', async () => {
  const { stream, changes, acknowledge, heard, clock } = following(['tools']);
  await acknowledge(0);
  void changes.subscribe('memo://a');
  stream(0).end();
  await clock.settled();
  await acknowledge(1);

  expect(heard()).toEqual([toolsChanged, 'memo://a']);
});

test('107: change stream: at most two streams are open at a server that acknowledges only the first', async () => {
  const { streams, stream, changes, acknowledge } = following(['tools']);
  await acknowledge(0);

  for (let n = 1; n <= 20; n += 1) {
    void changes.subscribe('memo://a');
    changes.unsubscribe('memo://a');
  }

  expect(streams).toHaveLength(41);
  expect(streams.filter(({ ended }) => !ended())).toHaveLength(2);
  expect(stream(0).ended()).toBe(false);
});

test('change stream: a refused resource leaves the others subscribed, on the stream that they had', async () => {
  const { stream, streams, changes, acknowledge, heard, clock } = following(['tools']);
  await acknowledge(0);

  const refused = changes.subscribe('memo://a');
  stream(1).end({ id: 'latchkey-listens-2', error: { code: -32602, message: 'no' } });
  expect(await refused).toBe(false);
  await stream(0).say({ method: toolsChanged });
  const subscribed = changes.subscribe('memo://b');
  await acknowledge(2);
  await clock.advance(60);

  expect(await subscribed).toBe(true);
  expect(heard()).toEqual([toolsChanged]);
  expect([stream(0).ended(), stream(2).ended(), streams.length]).toEqual([true, false, 3]);
});

test('change stream: a refused stream is followed by a new one if the stream that it was to replace has ended', async () => {
  const { stream, streams, changes, acknowledge, clock } = following(['tools']);
  await acknowledge(0);

  const refused = changes.subscribe('memo://a');
  stream(0).end();
  await clock.settled();
  stream(1).end({ id: 'latchkey-listens-2', error: { code: -32602, message: 'no' } });
  expect(await refused).toBe(false);
  await clock.advance(1);
  stream(2).end({ id: 'latchkey-listens-3', error: { code: -32602, message: 'no' } });
  await clock.advance(60);

  expect(stream(2).filter).toEqual({ toolsListChanged: true });
  expect(streams).toHaveLength(3);
});

test('change stream: if the server ends each stream immediately, it is reopened with growing pauses', async () => {
  const { stream, streams, clock, heard, acknowledge } = following(['tools']);
  const endLatest = async () => {
    await acknowledge(streams.length - 1);
    stream(streams.length - 1).end();
    await clock.settled();
  };

  await endLatest();
  for (let second = 1; second <= 120; second += 1) {
    const before = streams.length;
    await clock.advance(1);
    if (streams.length > before) await endLatest();
  }
  const atOnce = heard().length;
  await clock.advance(30);
  await acknowledge(streams.length - 1);
  await clock.advance(60);
  const before = streams.length;
  stream(before - 1).end();
  await clock.advance(1);

  expect(atOnce).toBeLessThan(10);
  expect(streams).toHaveLength(before + 1);
});
