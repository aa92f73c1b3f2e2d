import { expect, test } from 'vitest';

import { walkThroughRights } from '#support/tools-model/walk';

const walks = (['modern', 'legacy'] as const).flatMap((era) =>
  Array.from({ length: 10 }, (_, index) => [index + 1, era] as const),
);

test.each(walks)(
  'rights per tool: all that says or decides them agrees with a reference, over 100 steps from seed %i before a %s server',
  async (seed, era) => {
    const { compared, problem } = await walkThroughRights({ seed, steps: 100, era });

    expect(problem).toBe('');
    expect(compared).toBeGreaterThan(6000);
  },
);
