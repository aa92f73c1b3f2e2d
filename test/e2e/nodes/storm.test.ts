import { expect, test } from 'vitest';
import { suite } from '#support/suite';
import { storm } from '../../nodes/storm.ts';

/** `test/nodes/scenarios.full.test.ts` has a longer one. */
await suite('ownPostgres', 'a storm of revocations', () => {
  test('of every kind at random nodes: a call that starts after the answer is refused everywhere', async () => {
    const report = await storm({ calls: 1200, revocations: 40, log: () => undefined });

    expect(report.violations).toEqual([]);
    expect(Object.keys(report.revocations)).toHaveLength(8);
    expect(report.neverAcceptedBefore).toBe(0);
    expect(report.callsInTheSameTurn).toBe(120);
  });
});
