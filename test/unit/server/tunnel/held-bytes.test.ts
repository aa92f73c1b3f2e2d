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
