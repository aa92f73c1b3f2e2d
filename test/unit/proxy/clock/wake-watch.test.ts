import { expect, test } from 'vitest';
import { wakeWatch } from '#proxy/clock/clock';

function machine() {
  const at = { wallMs: 5_000_000, steadyMs: 100 };
  const watch = wakeWatch(
    () => at.wallMs,
    () => at.steadyMs,
  );
  return {
    watch,
    runs: (seconds: number) => {
      at.wallMs += seconds * 1_000;
      at.steadyMs += seconds * 1_000;
    },
    sleeps: (seconds: number) => {
      at.wallMs += seconds * 1_000;
    },
  };
}

test('wake detection: time that passes without sleep is not reported, however long', () => {
  const { watch, runs } = machine();
  runs(100_000);

  expect(watch.wokeWithin(60)).toBe(false);
});

test('wake detection: sleep is detected after waking up, and reported once', () => {
  const { watch, runs, sleeps } = machine();
  runs(1_000);
  sleeps(3_600);

  expect(watch.wokeWithin(60)).toBe(true);
  runs(59);
  expect(watch.wokeWithin(60)).toBe(true);
  runs(2);
  expect(watch.wokeWithin(60)).toBe(false);
});

test('wake detection: a clock correction of a few seconds is not sleep', () => {
  const { watch, sleeps } = machine();
  sleeps(20);

  expect(watch.wokeWithin(60)).toBe(false);
});
