/**
 * `npm run nodes -- SCENARIO [OPTION…]`: what several nodes do when their surroundings fail. Every scenario starts a PostgreSQL server, a
 * NATS server and nodes of its own, prints a report as JSON, and exits with 1 if an invariant is broken. See test/README.md.
 */
import { parseArgs } from 'node:util';
import { processFaults } from './fault-list.ts';
import { failover } from './failover.ts';
import { faults } from './faults.ts';
import { steadyLoad } from './load.ts';
import { partition } from './partition.ts';
import { storm } from './storm.ts';
import { upgrade } from './upgrade.ts';

const log = (line: string) => process.stderr.write(`${line}\n`);

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    calls: { type: 'string' },
    revocations: { type: 'string' },
    collection: { type: 'boolean', default: false },
    faults: { type: 'boolean', default: false },
    minutes: { type: 'string' },
    rounds: { type: 'string' },
    limit: { type: 'string', default: '20' },
  },
});

interface Report {
  readonly violations: readonly string[];
}

/** Whether callers call collections. */
const isCollection = values.collection;

const scenarios: Record<string, () => Promise<Report>> = {
  storm: () =>
    storm({
      calls: count('calls', 1_000_000),
      revocations: count('revocations', 3000),
      isCollection,
      ...(values.faults && { faults: processFaults }),
      log,
    }),
  faults: () => faults({ rounds: count('rounds', 1), isCollection, log }),
  failover: () => failover(log),
  upgrade: () => upgrade(log),
  load: () => steadyLoad({ minutes: count('minutes', 10), isCollection, log }),
  partition: () => partition({ rounds: count('rounds', 1), isCollection, log }),
};

// An exit handler kills every child, so this process must call `process.exit` itself: on a signal, and when its time is over.
process.on('SIGINT', () => process.exit(130)).on('SIGTERM', () => process.exit(143));
setTimeout(
  () => {
    log(`given up after ${values.limit} minutes`);
    process.exit(1);
  },
  Number(values.limit) * 60_000,
).unref();

const [name = ''] = positionals;
const scenario = scenarios[name];
if (!scenario) {
  log(`usage: npm run nodes -- ${Object.keys(scenarios).join('|')}`);
  process.exit(2);
}
const report = await scenario();
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
if (report.violations.length > 0) {
  log(`${name}: ${report.violations.length} violations`);
  process.exitCode = 1;
}

function count(option: 'calls' | 'revocations' | 'minutes' | 'rounds', usual: number): number {
  const value = Number(values[option] ?? usual);
  if (!(value > 0)) throw new Error(`--${option} is a number above 0`);
  return value;
}
