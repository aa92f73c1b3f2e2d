import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { CredentialUse } from '#server/db/last-uses';
import { UsageRecorder } from '#server/usage/last-uses';

type Uses = ReadonlyArray<CredentialUse & { usedAt: number }>;

const client = { type: 'client', id: 'client_a' } as const;
const key = { type: 'key', id: 'key_b' } as const;

/** A store that keeps what it was given, and fails while `broken`. */
function memoryUsage() {
  const written: Uses[] = [];
  const usage = {
    written,
    broken: false,
    write: (uses: Uses) => {
      if (usage.broken) return Promise.reject(new Error('disk full'));
      written.push(uses);
      return Promise.resolve();
    },
  };
  return usage;
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

test('uses are written together, at the interval and not before', async () => {
  const store = memoryUsage();
  const recorder = new UsageRecorder(store.write, vi.fn(), 2000);
  recorder.used(client, 100);
  recorder.used(key, 101);
  await vi.advanceTimersByTimeAsync(1999);

  expect(store.written).toEqual([]);

  await vi.advanceTimersByTimeAsync(1);

  expect(store.written).toEqual([
    [
      { ...client, usedAt: 100 },
      { ...key, usedAt: 101 },
    ],
  ]);
});

test('of many uses of one credential the last is written, once', async () => {
  const store = memoryUsage();
  const recorder = new UsageRecorder(store.write, vi.fn());
  recorder.used(client, 100);
  recorder.used(client, 107);
  await recorder.flush();
  await recorder.flush();

  expect(store.written).toEqual([[{ ...client, usedAt: 107 }]]);
});

test('nothing is written without a use', async () => {
  const store = memoryUsage();
  const recorder = new UsageRecorder(store.write, vi.fn(), 2000);
  await vi.advanceTimersByTimeAsync(10_000);
  await recorder.close();

  expect(store.written).toEqual([]);
});

test('a failed write is reported, and its uses are written the next time', async () => {
  const store = memoryUsage();
  const failed = vi.fn();
  const recorder = new UsageRecorder(store.write, failed);
  recorder.used(client, 100);
  store.broken = true;
  await recorder.flush();
  store.broken = false;
  await recorder.flush();

  expect(failed).toHaveBeenCalledExactlyOnceWith(new Error('disk full'));
  expect(store.written).toEqual([[{ ...client, usedAt: 100 }]]);
});

test('a use recorded while a write fails is not replaced by the older one', async () => {
  const store = memoryUsage();
  const recorder = new UsageRecorder(store.write, vi.fn());
  recorder.used(client, 100);
  store.broken = true;
  const flushing = recorder.flush();
  await Promise.resolve();
  recorder.used(client, 105);
  await flushing;
  store.broken = false;
  await recorder.flush();

  expect(store.written).toEqual([[{ ...client, usedAt: 105 }]]);
});

test('closing writes the remaining uses and nothing afterwards', async () => {
  const store = memoryUsage();
  const recorder = new UsageRecorder(store.write, vi.fn(), 2000);
  recorder.used(client, 100);
  await recorder.close();
  recorder.used(client, 200);
  await vi.advanceTimersByTimeAsync(10_000);

  expect(store.written).toEqual([[{ ...client, usedAt: 100 }]]);
});

test('closing waits for a write in progress', async () => {
  const store = {
    write: vi.fn(() => new Promise<void>((resolve) => void setTimeout(resolve, 50))),
  };
  const recorder = new UsageRecorder(store.write, vi.fn(), 2000);
  recorder.used(client, 100);
  await vi.advanceTimersByTimeAsync(2000);
  let closed = false;
  const closing = recorder.close().then(() => (closed = true));
  await vi.advanceTimersByTimeAsync(49);

  expect(closed).toBe(false);

  await vi.advanceTimersByTimeAsync(1);
  await closing;

  expect(store.write).toHaveBeenCalledTimes(1);
});
