import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sqliteRefreshLock } from '#proxy/auth/refresh-lock';
import { fakeClock } from '#support/fake-clock';
import { testFolder } from '#support/test-folder';

const directory = () => join(testFolder(), 'locks');

/** Holds the lock of `account` until it is let go. */
function held(lock: ReturnType<typeof sqliteRefreshLock>, account: string) {
  const got = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const done = lock.hold(account, async () => {
    got.resolve();
    await release.promise;
  });
  return { got: got.promise, release: release.resolve, done };
}

test('refresh lock: a second holder waits for the first, and other accounts do not', async () => {
  const clock = fakeClock();
  const place = directory();
  const first = held(sqliteRefreshLock(place, clock), 'a');
  await first.got;
  const order: string[] = [];

  const second = sqliteRefreshLock(place, clock).hold('a', async () => void order.push('second'));
  await sqliteRefreshLock(place, clock).hold('b', async () => void order.push('other'));
  await clock.asleep();
  first.release();
  await first.done;
  await clock.advance(1);
  await second;

  expect(order).toEqual(['other', 'second']);
});

test('refresh lock: it is released when the work fails', async () => {
  const lock = sqliteRefreshLock(directory(), fakeClock());
  await expect(lock.hold('a', () => Promise.reject(new Error('no')))).rejects.toThrow('no');

  expect(await lock.hold('a', () => Promise.resolve('yes'))).toBe('yes');
});

test('refresh lock: a wait of more than a minute is an error', async () => {
  const clock = fakeClock();
  const place = directory();
  const first = held(sqliteRefreshLock(place, clock), 'a');
  await first.got;
  const second = sqliteRefreshLock(place, clock).hold('a', () => Promise.resolve());
  const refusal = second.catch((error: unknown) => error);
  await clock.asleep();
  await clock.advance(61);

  expect(await refusal).toMatchObject({ code: 'busy' });

  first.release();
  await first.done;
});

test('refresh lock: the error for a directory that cannot be created names it', async () => {
  const file = join(testFolder(), 'file');
  writeFileSync(file, '');

  await expect(
    sqliteRefreshLock(file, fakeClock()).hold('a', () => Promise.resolve()),
  ).rejects.toMatchObject({ code: 'no_lock', message: expect.stringContaining(file) });
});

test('refresh lock: a waiting process polls with growing pauses of at most a second', async () => {
  const sleeps: number[] = [];
  const clock = fakeClock();
  const place = directory();
  const first = held(sqliteRefreshLock(place, clock), 'a');
  await first.got;
  let ms = clock.now() * 1000;
  const patient = {
    now: () => Math.floor(ms / 1000),
    sleep(forMs: number) {
      sleeps.push(forMs);
      ms += forMs;
      return Promise.resolve();
    },
  };
  const refusal = sqliteRefreshLock(place, patient).hold('a', () => Promise.resolve());

  await expect(refusal).rejects.toMatchObject({ code: 'busy' });
  expect(sleeps.slice(0, 20).every((slept) => slept === 50)).toBe(true);
  expect(Math.max(...sleeps)).toBe(1_000);
  expect(sleeps.length).toBeLessThan(120);

  first.release();
  await first.done;
});

test('refresh lock: the error for a lock that cannot be taken says why', async () => {
  const place = directory();
  const lock = sqliteRefreshLock(place, fakeClock());
  await lock.hold('a', async () => {});
  for (const name of readdirSync(place)) writeFileSync(join(place, name), 'x'.repeat(4096));

  await expect(lock.hold('a', async () => {})).rejects.toMatchObject({
    code: 'no_lock',
    message: expect.stringMatching(/^cannot lock .*\.lock: file is not a database$/),
  });
});
