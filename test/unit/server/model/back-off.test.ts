import { expect, test } from 'vitest';
import { type BackOff, backOffs, pauseMs } from '#server/model/back-off';

test.each<[keyof typeof backOffs, number[]]>([
  ['webhook', [0, 5000, 10_000, 20_000, 40_000, 3_600_000]],
  ['mail', [0, 30_000, 60_000, 120_000, 240_000, 3_600_000]],
  ['credentialCleanup', [0, 60_000, 120_000, 240_000, 480_000, 30_720_000]],
  ['upstreamStream', [0, 1000, 2000, 4000, 8000, 30_000]],
  ['workerRestart', [0, 250, 500, 1000, 2000, 10_000]],
  ['admission', [0, 20, 40, 80, 160, 250]],
  ['deadlock', [0, 2, 4, 8, 16, 16]],
])('back-off of %s: pauses double up to the longest', (use, pauses) => {
  expect([0, 1, 2, 3, 4, 5000].map((failures) => pauseMs(backOffs[use], failures))).toEqual(pauses);
});

test('back-off: a random part is taken off', () => {
  const backOff: BackOff = { firstMs: 1000, mostMs: 60_000, jitter: 0.5 };

  expect(pauseMs(backOff, 2, () => 0.5)).toBe(1500);
});
