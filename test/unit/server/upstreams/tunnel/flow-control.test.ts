import { expect, test } from 'vitest';

import { MemoryBudget } from '#server/upstreams/tunnel/flow-control';

test('memory budget: one caller leaves a quarter to others, and bytes are released once', () => {
  const budget = new MemoryBudget(100);
  const first = budget.reserve('greedy', 75);

  expect(budget.reserve('greedy', 1)).toBeUndefined();
  const second = budget.reserve('modest', 25);
  expect(budget.reserve('shy', 1)).toBeUndefined();
  first?.();
  first?.();
  expect(budget.total).toBe(25);
  second?.();
  expect(budget.reserve('greedy', 75)).toBeDefined();
});

/** 100 bytes, and the callers that were evicted, in order. */
function contested() {
  const budget = new MemoryBudget(100);
  const evicted: string[] = [];
  const reserve = (caller: string, bytes: number) =>
    budget.reserve(caller, bytes, () => evicted.push(caller)) !== undefined;
  const many = (caller: string, count: number) =>
    Array.from({ length: count }, () => reserve(caller, 5)).filter(Boolean).length;
  return { budget, evicted, reserve, many };
}

test('memory budget: a caller with less gets memory at the cost of the caller with most', () => {
  const { budget, evicted, reserve, many } = contested();

  expect([many('first', 20), many('second', 20)]).toEqual([15, 10]);
  expect(evicted).toEqual(Array.from({ length: 5 }, () => 'first'));
  expect(reserve('third', 20)).toBe(true);
  expect(evicted.slice(5).toSorted()).toEqual(['first', 'first', 'second', 'second']);
  expect(budget.total).toBe(100);
});

test('memory budget: a caller evicts neither one with less nor a reservation that cannot be evicted', () => {
  const { budget, evicted, reserve, many } = contested();
  many('first', 10);
  many('second', 10);

  expect([reserve('first', 5), reserve('third', 50)]).toEqual([false, false]);
  expect(evicted).toEqual([]);

  const fixed = new MemoryBudget(10);
  fixed.reserve('first', 7);
  fixed.reserve('second', 3);
  expect(fixed.reserve('third', 1)).toBeUndefined();
  expect(budget.total).toBe(100);
});

test('memory budget: an evicted reservation is released once, and a released one is not evicted', () => {
  const budget = new MemoryBudget(10);
  const evicted: number[] = [];
  const early = budget.reserve('first', 3, () => evicted.push(1));
  const late = budget.reserve('first', 4, () => evicted.push(2));
  budget.reserve('second', 3);
  late?.();
  budget.reserve('second', 4);
  budget.reserve('third', 1, () => evicted.push(3));

  expect(evicted).toEqual([]);

  early?.();
  early?.();

  expect(budget.total).toBe(7);
});
