import { readdirSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import type { Program } from '#support/processes';
import { processCost } from '../bench/process-cost.ts';
import { openRecords } from './credentials.ts';
import { Installation, type ServerNode } from './installation.ts';
import {
  countingUpstream,
  createTargets,
  MixedLoad,
  type MixedReport,
  violationsOf,
} from './mixed-load.ts';
import { median } from '../bench/measurements.ts';
import { Tally } from './send.ts';

/** What a node held at one moment. */
interface Sample {
  readonly atMs: number;
  readonly megabytes: number;
  readonly descriptors: number;
}

/** Two windows of the time after the warm-up. */
export interface Growth {
  readonly node: string;
  readonly megabytes: { readonly first: number; readonly last: number; readonly change: string };
  readonly descriptors: { readonly first: number; readonly last: number };
}

export interface LoadReport {
  readonly load: MixedReport;
  readonly callsPerSecond: number;
  readonly nodesReplaced: number;
  readonly agentsReplaced: number;
  readonly growth: readonly Growth[];
  readonly violations: readonly string[];
}

/** Two of these nodes stay, and one is replaced again and again. */
const nodes = 3;
const warmUpShare = 0.3;
const windowShare = 0.2;
const sampleEveryMs = 1000;
const mostGrowth = 0.1;
/** The most descriptors that a node may gain: connections to other parts open and close all the time. */
const mostDescriptors = 12;
/** Failed calls that end this long after a node or an agent was replaced are explained by that. */
const explainedMs = 5000;

/** Mixed load for `minutes`, while a node and an agent come and go. Two nodes stay; their memory and descriptors must not grow. */
export async function steadyLoad({
  minutes,
  isCollection = false,
  log,
}: {
  readonly minutes: number;
  /** Whether a collection is called. */
  readonly isCollection?: boolean;
  readonly log: (line: string) => void;
}): Promise<LoadReport> {
  await using installation = await Installation.create({
    size: nodes,
    nodeArgs: ['--shutdown-delay', '2'],
  });
  await using records = await openRecords(installation);
  await using upstream = await countingUpstream();
  const targets = await createTargets(installation, records, { url: upstream.url, isCollection });
  const startAgent = () => installation.startAgent(targets.connectKey, { behind: upstream.url });
  let agent: Program = await startAgent();
  const load = new MixedLoad({ installation, records, targets, upstream }, { paceMs: 5 });
  await load.start();
  const startedAtMs = performance.now();
  const endsAtMs = startedAtMs + minutes * 60_000;
  const samples = new Map<ServerNode, Sample[]>(
    installation.nodes.slice(0, nodes - 1).map((node) => [node, []]),
  );
  const sampler = setInterval(() => {
    for (const [node, own] of samples) own.push(sampleOf(node));
  }, sampleEveryMs);
  const changes: { readonly fromMs: number; readonly toMs: number }[] = [];
  const counts = { nodes: 0, agents: 0 };
  const restMs = Math.min(15_000, (minutes * 60_000) / 8);
  try {
    while (performance.now() + restMs < endsAtMs) {
      await pause(restMs);
      const fromMs = performance.now();
      if (counts.nodes <= counts.agents) {
        counts.nodes += 1;
        await replaceLast(installation);
      } else {
        counts.agents += 1;
        await agent.end();
        agent = await startAgent();
      }
      changes.push({ fromMs, toMs: performance.now() });
      log(
        `${Math.round((performance.now() - startedAtMs) / 1000)} s: ${load.total} calls, ${load.failures.length} failed`,
      );
    }
    await pause(endsAtMs - performance.now());
  } finally {
    clearInterval(sampler);
  }
  const report = await load.stop();
  const growth = [...samples].map(([node, own]) => growthOf(node.name, own));
  const unexplained = new Tally();
  for (const { kind, word, startedAtMs: from, endedAtMs: to } of load.failures) {
    const isExplained = changes.some(
      ({ fromMs, toMs }) => to >= fromMs && from <= toMs + explainedMs,
    );
    if (!isExplained) unexplained.add(`${kind}: ${word}`);
  }
  return {
    load: report,
    callsPerSecond: Math.round(load.total / (minutes * 60)),
    nodesReplaced: counts.nodes,
    agentsReplaced: counts.agents,
    growth,
    violations: [
      ...violationsOf(report),
      ...growth.flatMap(growthViolations),
      ...Object.entries(unexplained.toJSON()).map(
        ([word, times]) => `unexplained: ${word} ×${times}`,
      ),
    ],
  };
}

async function replaceLast(installation: Installation): Promise<void> {
  const last = installation.nodes.at(-1);
  if (!last) throw new Error('the installation has no nodes');
  await last.stop();
  await pause(500);
  await last.start();
}

function sampleOf({ program: { pid } }: ServerNode): Sample {
  return {
    atMs: performance.now(),
    megabytes: (processCost(pid)?.residentBytes ?? Number.NaN) / 1e6,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  };
}

function growthOf(node: string, samples: readonly Sample[]): Growth {
  const { length } = samples;
  const window = Math.max(1, Math.floor(length * windowShare));
  const begin = Math.floor(length * warmUpShare);
  const [early, late] = [samples.slice(begin, begin + window), samples.slice(-window)];
  const middle = (of: readonly Sample[], what: 'megabytes' | 'descriptors') =>
    Math.round(median(of.map((sample) => sample[what])));
  const [first, last] = [middle(early, 'megabytes'), middle(late, 'megabytes')];
  return {
    node,
    megabytes: { first, last, change: `${((last / first - 1) * 100).toFixed(1)} %` },
    descriptors: { first: middle(early, 'descriptors'), last: middle(late, 'descriptors') },
  };
}

function growthViolations({ node, megabytes, descriptors }: Growth): string[] {
  const found: string[] = [];
  if (megabytes.last > megabytes.first * (1 + mostGrowth)) {
    found.push(`${node}: memory grew from ${megabytes.first} to ${megabytes.last} MB`);
  }
  if (descriptors.last > descriptors.first + mostDescriptors) {
    found.push(`${node}: descriptors grew from ${descriptors.first} to ${descriptors.last}`);
  }
  return found;
}
