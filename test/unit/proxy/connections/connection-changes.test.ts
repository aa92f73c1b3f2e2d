import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { connectionChanges } from '#proxy/connections/connection-views';
import { fakeClock } from '#support/fake-clock';
import { temporaryFolder } from '#support/temporary-folder';

/** The changes of `state.view`, which `tell` or a changed file announces. */
function changing(paths: string[] = []) {
  const clock = fakeClock();
  const state = { view: 'first', reads: 0 };
  const life = new AbortController();
  let wake: () => void = () => undefined;
  const changes = connectionChanges(
    {
      async view() {
        state.reads += 1;
        return state.view;
      },
      news: async (signal) =>
        new Promise<void>((resolve) => {
          wake = resolve;
          signal.addEventListener('abort', () => resolve());
        }),
      paths,
      clock,
    },
    life.signal,
  );
  /** The next value; advances the clock until it arrives. */
  async function next(): Promise<string> {
    const come: string[] = [];
    void changes.next().then(({ value }) => come.push(value ?? 'ended'));
    while (come.length === 0) await clock.advance(1);
    return come[0] ?? '';
  }
  return { state, tell: () => wake(), next, life };
}

test('connection changes: the current view is delivered immediately, and again when it changes', async () => {
  const { state, tell, next } = changing();
  const first = await next();
  state.view = 'second';
  tell();

  expect([first, await next()]).toEqual(['first', 'second']);
});

test('connection changes: a change that no event announces is found within 15 seconds', async () => {
  const { state, next } = changing();
  await next();
  state.view = 'signed in elsewhere';

  expect(await next()).toBe('signed in elsewhere');
});

test('connection changes: a changed file causes a new read', async () => {
  await using folder = await temporaryFolder();
  const { state, next } = changing([folder.path]);
  await next();
  await writeFile(join(folder.path, 'new'), 'x');
  state.view = 'with the new file';

  expect(await next()).toBe('with the new file');
  expect(state.reads).toBe(2);
});

test('connection changes: the stream ends when its subscriber aborts', async () => {
  const { next, life } = changing();
  await next();
  life.abort();

  expect(await next()).toBe('ended');
});
