import { setTimeout as pause } from 'node:timers/promises';
import {
  createTargets,
  countingUpstream,
  MixedLoad,
  type MixedReport,
  violationsOf,
  type Failure,
  callKinds,
} from './mixed-load.ts';
import { openRecords } from './credentials.ts';
import { type FaultRun, processFaults, restMs, runFaults } from './fault-list.ts';
import { Installation } from './installation.ts';
import { Tally } from './send.ts';

/** The effect of one fault on the calls around it. */
export interface FaultEffect {
  readonly fault: string;
  readonly brokenForMs: number;
  /** Failed calls that began after the fault did, by kind and answer. */
  readonly failed: Readonly<Record<string, number>>;
  /** From the repair to the start of the last call that failed; 0 when none failed after it. */
  readonly recoveredAfterMs: number;
}

export interface FaultsReport {
  readonly load: MixedReport;
  readonly effects: readonly FaultEffect[];
  readonly violations: readonly string[];
}

const nodes = 3;

/** Kills and stops each part of an installation in turn, while calls of all kinds and writes are made. */
export async function faults({
  rounds,
  isCollection = false,
  log,
}: {
  readonly rounds: number;
  /** Whether a collection is called. */
  readonly isCollection?: boolean;
  readonly log: (line: string) => void;
}): Promise<FaultsReport> {
  await using installation = await Installation.create({ size: nodes });
  await using records = await openRecords(installation);
  await using upstream = await countingUpstream();
  const targets = await createTargets(installation, records, { url: upstream.url, isCollection });
  await using _agent = await installation.startAgent(targets.connectKey, { behind: upstream.url });
  const load = new MixedLoad({ installation, records, targets, upstream }, { paceMs: 10 });
  await load.start();
  const list = processFaults(installation);
  const runs = await runFaults(list, { signal: new AbortController().signal, log, rounds });
  await pause(restMs);
  const report = await load.stop();
  const effects = effectsOf(runs, load.failures);
  const unserved = callKinds.filter((kind) => report.calls[kind] === 0);
  return {
    load: report,
    effects,
    violations: [
      ...violationsOf(report),
      ...unserved.map((kind) => `no call of the kind ${kind} was made`),
      ...unexplained(runs, load.failures),
    ],
  };
}

/** A fault has effects from its start until the next one starts. */
export function effectsOf(runs: readonly FaultRun[], failures: readonly Failure[]): FaultEffect[] {
  return runs.map((run, at) => {
    const until = runs[at + 1]?.brokenAtMs ?? Infinity;
    const own = failures.filter(
      ({ endedAtMs }) => endedAtMs >= run.brokenAtMs && endedAtMs < until,
    );
    const failed = new Tally();
    for (const { kind, word } of own) failed.add(`${kind}: ${word}`);
    const last = Math.max(run.mendedAtMs, ...own.map(({ startedAtMs }) => startedAtMs));
    return {
      fault: run.name,
      brokenForMs: Math.round(run.mendedAtMs - run.brokenAtMs),
      failed: failed.toJSON(),
      recoveredAfterMs: Math.round(last - run.mendedAtMs),
    };
  });
}

/** A violation for each call that failed before the first fault. */
export function unexplained(runs: readonly FaultRun[], failures: readonly Failure[]): string[] {
  const first = runs[0]?.brokenAtMs ?? Infinity;
  return failures
    .filter(({ endedAtMs }) => endedAtMs < first)
    .map(({ kind, word }) => `failed although all was well: ${kind}: ${word}`);
}
