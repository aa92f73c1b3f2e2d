import { expect, test } from 'vitest';

import { HeldBytes } from '#server/tunnel/held-bytes';

test('one caller leaves a quarter to others, and what is let go of is free once', () => {
  const held = new HeldBytes(100);
  const first = held.hold('greedy', 75);

  expect(held.hold('greedy', 1)).toBeUndefined();
  const second = held.hold('modest', 25);
  expect(held.hold('shy', 1)).toBeUndefined();
  first?.();
  first?.();
  expect(held.all).toBe(25);
  second?.();
  expect(held.hold('greedy', 75)).toBeDefined();
});

/** 100 bytes, and who was given up, in order. */
function fought() {
  const held = new HeldBytes(100);
  const givenUp: string[] = [];
  const hold = (caller: string, bytes: number) =>
    held.hold(caller, bytes, () => givenUp.push(caller)) !== undefined;
  const many = (caller: string, count: number) =>
    Array.from({ length: count }, () => hold(caller, 5)).filter(Boolean).length;
  return { held, givenUp, hold, many };
}

test('however many fill it, one who has less finds room, at the cost of who has most', () => {
  const { held, givenUp, hold, many } = fought();

  expect([many('first', 20), many('second', 20)]).toEqual([15, 10]);
  expect(givenUp).toEqual(Array.from({ length: 5 }, () => 'first'));
  expect(hold('third', 20)).toBe(true);
  expect(givenUp.slice(5).toSorted()).toEqual(['first', 'first', 'second', 'second']);
  expect(held.all).toBe(100);
});

test('nobody gives way to who would then have more, nor what cannot be given up', () => {
  const { held, givenUp, hold, many } = fought();
  many('first', 10);
  many('second', 10);

  expect([hold('first', 5), hold('third', 50)]).toEqual([false, false]);
  expect(givenUp).toEqual([]);

  const fixed = new HeldBytes(10);
  fixed.hold('first', 7);
  fixed.hold('second', 3);
  expect(fixed.hold('third', 1)).toBeUndefined();
  expect(held.all).toBe(100);
});

test('what was given up is let go of once, and what was let go of is not given up', () => {
  const held = new HeldBytes(10);
  const givenUp: number[] = [];
  const early = held.hold('first', 3, () => givenUp.push(1));
  const late = held.hold('first', 4, () => givenUp.push(2));
  held.hold('second', 3);
  late?.();
  held.hold('second', 4);
  held.hold('third', 1, () => givenUp.push(3));

  expect(givenUp).toEqual([]);

  early?.();
  early?.();

  expect(held.all).toBe(7);
});
