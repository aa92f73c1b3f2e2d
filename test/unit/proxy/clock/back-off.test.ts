import { expect, test } from 'vitest';
import { pauseMs, randomPauseMs } from '#proxy/clock/back-off';

const pace = { firstMs: 1_000, longestMs: 30_000 };

test('back-off: the pause doubles up to its limit', () => {
  const waits = [0, 1, 2, 3, 4, 5, 50].map((attempt) => pauseMs(pace, attempt));

  expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
});

test('back-off: the pause is random, between half and all of its length', () => {
  expect(randomPauseMs(pace, 2, () => 0)).toBe(2_000);
  expect(randomPauseMs(pace, 2, () => 0.5)).toBe(3_000);
});
