import { vi } from 'vitest';

/** The prototypes behind every walk through a `Map` or a `Set`. */
const walks: readonly { next: () => unknown }[] = [
  Object.getPrototypeOf(new Map().values()),
  Object.getPrototypeOf(new Set().values()),
];

/** How many steps `act` makes through the entries of maps and sets. */
export function mapSteps(act: () => unknown): number {
  const spies = walks.map((walk) => vi.spyOn(walk, 'next'));
  try {
    act();
    return spies.reduce((sum, { mock }) => sum + mock.calls.length, 0);
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}
