import { expect, test } from 'vitest';

import { walkThroughRights } from '#support/tools-model/walk';

test.each(['modern', 'legacy'] as const)(
  'rights per tool: all that says or decides them agrees with a reference, over 15 steps before a %s server',
  async (era) => {
    const { compared, problem } = await walkThroughRights({ seed: 20261127, steps: 15, era });

    expect(problem).toBe('');
    expect(compared).toBeGreaterThan(900);
  },
);
