import { expect, test } from 'vitest';

import { CallerRate } from '#server/gateway/caller-rate';

test('as many are let through as allowed, then none until the first of them is a minute old', () => {
  const rate = new CallerRate(1000);
  const burst = [rate.take(2, 1000), rate.take(2, 1010), rate.take(2, 1020)];
  const waits = [rate.take(2, 1059), rate.take(2, 1060), rate.take(2, 1061)];

  expect(burst).toEqual([0, 0, 40]);
  expect(waits).toEqual([1, 0, 9]);
});

test('in no sixty seconds are more let through than allowed, and who waits as told gets through', () => {
  const most = 7;
  const rate = new CallerRate(0);
  const passed: number[] = [];
  const again: [number, number][] = [];
  for (let now = 0; now < 1000; now += 1 + ((now * 7) % 5)) {
    for (let tries = 0; tries < (now % 4) + 1; tries++) {
      const wait = rate.take(most, now);
      if (wait === 0) passed.push(now);
      else again.push([wait, rate.take(most, now)]);
    }
  }

  expect(again.every(([wait, then]) => wait === then)).toBe(true);
  expect(passed.length).toBeGreaterThan(100);
  for (const at of passed) {
    expect(passed.filter((other) => other >= at && other < at + 60).length).toBeLessThanOrEqual(
      most,
    );
  }
});

test('the wait that is told is the shortest that helps', () => {
  const rate = new CallerRate(100);
  for (const at of [100, 130, 131]) rate.take(3, at);
  const wait = rate.take(3, 140);

  expect(rate.take(3, 140 + wait - 1)).toBeGreaterThan(0);
  expect(rate.take(3, 140 + wait)).toBe(0);
});

test('a clock that was set back lets nobody through sooner', () => {
  const rate = new CallerRate(5000);
  rate.take(1, 5000);

  expect(rate.take(1, 4000)).toBeGreaterThan(0);
  expect(rate.take(1, 5060)).toBe(0);
});

test('a caller is forgotten once its minute is over and nothing of it is under way', () => {
  const rate = new CallerRate(100);
  rate.take(5, 100);
  rate.open = 1;
  const busy = rate.isIdle(1000);
  rate.open = 0;

  expect([busy, rate.isIdle(159), rate.isIdle(160)]).toEqual([false, false, true]);
});
