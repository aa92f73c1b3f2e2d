import { expect, test } from 'vitest';
import { SlidingWindow } from '#server/model/sliding-window';
import { stillClock } from '#support/still-clock';

test('sliding window: a name is full after the limit, until its oldest leaves the window', () => {
  const clock = stillClock(1000);
  const window = new SlidingWindow(clock, { seconds: 60, maxNames: 10 });
  const before = window.secondsUntilFree('a', 2);

  window.count('a', 2);
  clock.advance(20);
  window.count('a', 2);

  expect(before).toBe(0);
  expect(window.secondsUntilFree('a', 2)).toBe(40);
  expect(window.secondsUntilFree('a', 3)).toBe(0);
  expect(window.secondsUntilFree('b', 2)).toBe(0);
  clock.advance(39);
  expect(window.secondsUntilFree('a', 2)).toBe(1);
  clock.advance(1);
  expect(window.secondsUntilFree('a', 2)).toBe(0);
});

test('sliding window: what is counted beyond the limit replaces the oldest', () => {
  const clock = stillClock(1000);
  const window = new SlidingWindow(clock, { seconds: 60, maxNames: 10 });

  for (let count = 0; count < 3; count += 1) {
    window.count('a', 2);
    clock.advance(10);
  }

  expect(window.secondsUntilFree('a', 2)).toBe(40);
});

test('sliding window: beyond the number of names, the one counted longest ago is forgotten', () => {
  const window = new SlidingWindow(stillClock(1000), { seconds: 60, maxNames: 2 });

  for (const name of ['a', 'b', 'a', 'c']) window.count(name, 1);

  expect(['a', 'b', 'c'].map((name) => window.secondsUntilFree(name, 1))).toEqual([60, 0, 60]);
});
