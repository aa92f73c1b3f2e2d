import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import type { Installation } from './installation.ts';
import type { Machine } from './machinery.ts';

/** Something that breaks for a while. */
export interface Fault {
  readonly name: string;
  readonly breakIt: () => Promise<void> | void;
  /** How long it stays broken. */
  readonly lastsMs: number;
  readonly mendIt: () => Promise<void> | void;
}

export interface FaultRun {
  readonly name: string;
  readonly brokenAtMs: number;
  readonly mendedAtMs: number;
}

/** The pause before each fault. */
export const restMs = 4000;

/** The faults of the processes of an installation, in order. */
export function processFaults({ postgres, nats, nodes }: Installation): Fault[] {
  const [first, second] = nodes;
  if (!first || !second) throw new Error('faults need two nodes');
  return [
    suspended(postgres, 2500),
    {
      name: 'postgres: all connections cut',
      breakIt: () => postgres.breakConnections(),
      lastsMs: 0,
      mendIt: () => undefined,
    },
    killed(postgres, 1000),
    suspended(nats, 4000),
    killed(nats, 2000),
    suspended(first, 4000),
    // Longer than the five seconds after which a node no longer trusts what it reads.
    suspended(second, 7000),
    killed(first, 2000),
  ];
}

function suspended(machine: Machine, lastsMs: number): Fault {
  return {
    name: `${machine.name}: stopped and continued`,
    breakIt: () => machine.suspend(),
    lastsMs,
    mendIt: () => machine.resume(),
  };
}

function killed(machine: Machine, lastsMs: number): Fault {
  return {
    name: `${machine.name}: killed and restarted`,
    breakIt: () => machine.kill(),
    lastsMs,
    mendIt: () => machine.start(),
  };
}

/** Runs the faults in order, again and again, until the signal aborts or `rounds` are done. A fault that has begun is mended. */
export async function runFaults(
  faults: readonly Fault[],
  {
    signal,
    log,
    rounds = Infinity,
  }: { signal: AbortSignal; log: (line: string) => void; rounds?: number },
): Promise<FaultRun[]> {
  const runs: FaultRun[] = [];
  if (faults.length === 0) return runs;
  for (let turn = 0; turn < rounds * faults.length; turn += 1) {
    await pause(restMs);
    if (signal.aborted) break;
    const fault = faults[turn % faults.length];
    if (!fault) break;
    log(fault.name);
    const brokenAtMs = performance.now();
    await fault.breakIt();
    await pause(fault.lastsMs);
    await fault.mendIt();
    runs.push({ name: fault.name, brokenAtMs, mendedAtMs: performance.now() });
  }
  return runs;
}
