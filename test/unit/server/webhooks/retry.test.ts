import { expect, test } from 'vitest';
import { readRetryAfter, retrySeconds } from '#server/webhooks/deliveries';

const now = 1_800_000_000;
const wait = (attempts: number, random = 0, retryAfterSeconds?: number) =>
  retrySeconds({ attempts, retryAfterSeconds }, () => random);

test('each retry waits twice as long as the one before, from five seconds to an hour', () => {
  expect([0, 1, 2, 9, 10, 5000].map((attempts) => wait(attempts))).toEqual([
    5, 10, 20, 2560, 3600, 3600,
  ]);
});

test('a random part of a quarter spreads retries, and none comes sooner than after five seconds', () => {
  expect([wait(0, 0.999), wait(2, 0.999), wait(20, 0.5)]).toEqual([5, 15, 3150]);
});

test('Retry-After of a receiver is honoured, within the same bounds', () => {
  expect([wait(0, 0, 90), wait(9, 0, 90), wait(0, 0, 0), wait(0, 0, 86_400)]).toEqual([
    90, 90, 5, 3600,
  ]);
});

test.each([
  [null, undefined],
  ['120', 120],
  [' 7 ', 7],
  [new Date((now + 60) * 1000).toUTCString(), 60],
  [new Date((now - 60) * 1000).toUTCString(), 0],
  ['soon', undefined],
  ['99999999999999', undefined],
])('Retry-After %j is %j seconds', (value, seconds) => {
  expect(readRetryAfter(value, now)).toBe(seconds);
});
