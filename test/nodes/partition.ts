import { setTimeout as pause } from 'node:timers/promises';
import { openRecords } from './credentials.ts';
import { type Fault, restMs, runFaults } from './fault-list.ts';
import { effectsOf, type FaultsReport, unexplained } from './faults.ts';
import { Installation } from './installation.ts';
import { countingUpstream, createTargets, MixedLoad, violationsOf } from './mixed-load.ts';
import { type Cable, Networks, upstreamAddress } from './networks.ts';

const nodes = 3;

/**
 * Unplugs the cables of nodes in network namespaces, while calls of all kinds and writes are made. A node without PostgreSQL is called
 * nevertheless after each revocation: it must not let the key in.
 */
export async function partition({
  rounds,
  isCollection = false,
  log,
}: {
  readonly rounds: number;
  /** Whether a collection is called. */
  readonly isCollection?: boolean;
  readonly log: (line: string) => void;
}): Promise<FaultsReport> {
  await using networks = await Networks.create(nodes);
  await using installation = await Installation.create({ size: 0, host: '0.0.0.0' });
  const { postgres, nats } = installation;
  for (let at = 0; at < nodes; at += 1) {
    const ports = { postgres: postgres.port, nats: nats.port };
    await installation.addNode({ place: networks.place(at, ports) });
  }
  await using records = await openRecords(installation);
  await using upstream = await countingUpstream(upstreamAddress);
  const targets = await createTargets(installation, records, { url: upstream.url, isCollection });
  await using _agent = await installation.startAgent(targets.connectKey, { behind: upstream.url });
  const load = new MixedLoad({ installation, records, targets, upstream }, { paceMs: 10 });
  await load.start();
  const unplugged = (at: number, cables: readonly Cable[], lastsMs: number): Fault => ({
    name: `node-${at + 1} without ${cables.join(' and ')}`,
    breakIt: async () => {
      for (const cable of cables) await networks.unplug(at, cable);
    },
    lastsMs,
    mendIt: async () => {
      for (const cable of cables) await networks.plugIn(at, cable);
    },
  });
  const list = [
    unplugged(0, ['postgres'], 3000),
    // Longer than the five seconds after which a node no longer trusts what it reads.
    unplugged(1, ['postgres'], 8000),
    unplugged(0, ['nats'], 5000),
    unplugged(2, ['callers'], 4000),
    unplugged(1, ['postgres', 'nats'], 6000),
    unplugged(0, ['postgres', 'nats', 'callers'], 6000),
  ];
  const runs = await runFaults(list, { signal: new AbortController().signal, log, rounds });
  await pause(2 * restMs);
  const report = await load.stop();
  return {
    load: report,
    effects: effectsOf(runs, load.failures),
    violations: [...violationsOf(report), ...unexplained(runs, load.failures)],
  };
}
