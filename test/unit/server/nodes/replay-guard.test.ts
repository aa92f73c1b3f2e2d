import { beforeEach, expect, test } from 'vitest';
import { ReplayGuard } from '#server/nodes/replay-guard';

let nowMs: number;
let guard: ReplayGuard;
beforeEach(() => {
  nowMs = 1_700_000_000_000;
  guard = new ReplayGuard(() => nowMs);
});

test('114: replay guard: a message is accepted once, even after its nonce was forgotten', () => {
  const sentMs = nowMs;
  const arrivals = [0, 1, 9000, 11_000, 60_000].map((laterMs) => {
    nowMs = sentMs + laterMs;
    return [guard.isFirst('a', sentMs), guard.isFirst(`b ${laterMs}`, nowMs)];
  });

  expect(arrivals).toEqual([
    [true, true],
    [false, true],
    [false, true],
    [false, true],
    [false, true],
  ]);
});

test('replay guard: a message from ten seconds ahead is accepted once, and one from further ahead never', () => {
  const ahead = nowMs + 10_000;

  expect(guard.isFirst('a', ahead)).toBe(true);
  expect(guard.isFirst('b', ahead + 1)).toBe(false);
  nowMs = ahead + 10_000;
  expect(guard.isFirst('a', ahead)).toBe(false);
});

test('114: replay guard: a nonce from ten seconds ahead is remembered for as long as its message would be accepted', () => {
  const sentMs = nowMs + 10_000;
  guard.isFirst('ahead', sentMs);
  const arrivals = [10_000, 11_000, 19_000, 20_000].map((laterMs) => {
    nowMs = sentMs - 10_000 + laterMs;
    // At each call, the guard forgets the nonces that it may forget.
    return [guard.isFirst(`another ${laterMs}`, nowMs), guard.isFirst('ahead', sentMs)];
  });

  expect(arrivals).toEqual([
    [true, false],
    [true, false],
    [true, false],
    [true, false],
  ]);
});

test('107: bounded memory: beyond 200,000 messages in ten seconds all are refused, and later ones are accepted', () => {
  for (let count = 0; count < 200_000; count += 1) guard.isFirst(`nonce ${count}`, nowMs);

  expect(guard.isFirst('one more', nowMs)).toBe(false);

  nowMs += 11_000;

  expect(guard.isFirst('a later one', nowMs)).toBe(true);
});
