import { expect, test } from 'vitest';

import { ChangeFeed } from '#server/upstreams/skills/skill-folder';
import { joinStreams } from '#server/upstreams/skills/notifications';

test('changes without a reader are reported as one, and nothing after the end', async () => {
  const feed = new ChangeFeed();
  const ending = new AbortController();
  const changes = feed.subscribe(ending.signal);
  const first = changes.next();
  feed.publish({ isListChanged: false, updated: ['a'] });
  const told = [(await first).value];
  feed.publish({ isListChanged: true, updated: ['b'] });
  feed.publish({ isListChanged: false, updated: ['b', 'c'] });
  told.push((await changes.next()).value);
  const last = changes.next();
  ending.abort();

  expect(told).toEqual([
    { isListChanged: false, updated: ['a'] },
    { isListChanged: true, updated: ['b', 'c'] },
  ]);
  expect((await last).done).toBe(true);
  expect(feed.version).toBe(1);
});

test('two streams are merged until the first ends', async () => {
  const ending = new AbortController();
  const feed = new ChangeFeed();
  const next = Promise.withResolvers<void>();
  async function* leading() {
    yield 'one';
    await next.promise;
    yield 'two';
  }
  async function* others() {
    for await (const { updated } of feed.subscribe(ending.signal)) yield* updated;
  }
  const seen: string[] = [];
  for await (const item of joinStreams(leading(), others(), () => ending.abort())) {
    seen.push(item);
    if (item === 'one')
      setImmediate(() => feed.publish({ isListChanged: false, updated: ['ours'] }));
    if (item === 'ours') next.resolve();
  }

  expect(seen).toEqual(['one', 'ours', 'two']);
  expect(ending.signal.aborted).toBe(true);
});
