import { expect, test } from 'vitest';
import { suite } from '#support/suite';
import { failover } from './failover.ts';
import { processFaults } from './fault-list.ts';
import { faults } from './faults.ts';
import { partition } from './partition.ts';
import { storm } from './storm.ts';
import { upgrade } from './upgrade.ts';

const log = () => undefined;

await suite('ownPostgres', 'nodes without a fault', () => {
  test('a longer storm of every kind: a call that starts after the answer is refused everywhere', async () => {
    const report = await storm({ calls: 3000, revocations: 100, log });

    expect(report.violations).toEqual([]);
    expect(Object.keys(report.revocations)).toHaveLength(8);
    expect(report.neverAcceptedBefore).toBe(0);
    expect(report.callsInTheSameTurn).toBe(300);
  });
});

await suite('ownPostgres', 'nodes while parts fail', () => {
  test('a storm of revocations while each part is stopped, killed and cut off: no call is let in', async () => {
    const report = await storm({ calls: 30_000, revocations: 300, faults: processFaults, log });

    expect(report.violations).toEqual([]);
    expect(report.callsAfterRevocation).toBeGreaterThan(1000);
  });

  test('each part stopped and killed: no call runs twice, no confirmed write is lost', async () => {
    const report = await faults({ rounds: 1, log });

    expect(report.violations).toEqual([]);
    expect(report.load.writes.keysRevoked).toBeGreaterThan(0);
  });

  test('a primary that is killed: a synchronous standby has every confirmed revocation', async () => {
    const { violations, synchronous, refusal } = await failover(log);

    expect(violations).toEqual([]);
    expect(synchronous.answeredRevocations).toBeGreaterThan(0);
    expect(refusal).toContain('has a standby that is not synchronous');
  });

  test('a rolling upgrade with an additive migration: only sessions end, and agents move', async () => {
    const report = await upgrade(log);

    expect(report.violations).toEqual([]);
    expect(report.restartOfAnOlderNode).toBe('started');
  });
});

await suite(['ownPostgres', 'networkNamespaces'], 'nodes in networks that are cut', () => {
  test('a node without PostgreSQL, NATS or callers: nothing is let in, run twice or lost', async () => {
    const report = await partition({ rounds: 1, log });

    expect(report.violations).toEqual([]);
  });
});
