import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { startProgram } from '#support/processes';
import { createRevocables, openRecords, type Revocable } from './credentials.ts';
import { Installation } from './installation.ts';
import { type Fault, runFaults } from './fault-list.ts';
import { isAccepted, percentile, type Reply, send, sendTo, Tally, wordFor } from './send.ts';

export interface StormOptions {
  readonly calls: number;
  readonly revocations: number;
  /** Whether callers call collections of the servers. */
  readonly isCollection?: boolean;
  /** Faults that are done one after another while it lasts. */
  readonly faults?: (installation: Installation) => readonly Fault[];
  readonly log: (line: string) => void;
}

export interface StormReport {
  readonly nodes: number;
  readonly calls: number;
  readonly seconds: number;
  readonly callsPerSecond: number;
  readonly revocations: Readonly<Record<string, number>>;
  readonly revocationMs: { readonly p50: number; readonly p99: number; readonly max: number };
  readonly slowestRevocations: readonly string[];
  readonly callMs: { readonly p50: number; readonly p99: number };
  /** Calls after the answer to their revocation; each of them was refused, or it is a violation. */
  readonly callsAfterRevocation: number;
  /** The part of `callsAfterRevocation` that was sent to every node in the turn in which the answer arrived. */
  readonly callsInTheSameTurn: number;
  readonly answers: Tally;
  readonly revocationAnswers: Tally;
  readonly neverAcceptedBefore: number;
  readonly faults: readonly string[];
  readonly violations: readonly string[];
}

const targetFile = join(import.meta.dirname, '../bench/floors/mcp-target.ts');
const nodes = 3;
const callers = 48;
const revokers = 4;
/** Calls are mostly made with credentials this close to the one that is revoked next. */
const window = 60;
/** How often a credential is tried before it is revoked; one that works is accepted much sooner. */
const mostFirstCalls = 20;

/**
 * Takes access away at random nodes while callers use it at all of them. A call that starts after the answer to its revocation has
 * arrived must be refused. The credentials around the one that is revoked next are used most, so that calls with it are always under
 * way; and each answer is followed, in the same turn, by a call at every node.
 */
export async function storm({
  calls,
  revocations,
  isCollection = false,
  faults,
  log,
}: StormOptions): Promise<StormReport> {
  await using installation = await Installation.create({ size: nodes });
  await using records = await openRecords(installation);
  log(`creating ${revocations} credentials`);
  await using target = startProgram(process.execPath, { args: [targetFile] });
  const [, origin = ''] = await target.line(/listening on (\S+)/);
  const revocables = await createRevocables(
    { records, url: `${origin}/mcp`, isCollection },
    revocations,
  );
  const run = new Storm(installation, revocables, { calls });
  log(`${calls} calls at ${nodes} nodes`);
  const ending = new AbortController();
  const list = faults?.(installation) ?? [];
  const disturbing = runFaults(list, { signal: ending.signal, log });
  const startedAt = performance.now();
  const progress = setInterval(() => log(run.progress()), 10_000);
  try {
    await run.run();
  } finally {
    clearInterval(progress);
    ending.abort();
    await disturbing;
  }
  const seconds = (performance.now() - startedAt) / 1000;
  await run.checkAll();
  return run.report(seconds, list);
}

class Storm {
  readonly #installation: Installation;
  readonly #revocables: readonly Revocable[];
  readonly #calls: number;
  readonly #answers = new Tally();
  readonly #revocationAnswers = new Tally();
  readonly #revoked = new Tally();
  readonly #violations: string[] = [];
  readonly #revocationMs: { readonly kind: string; readonly ms: number }[] = [];
  readonly #callMs: number[] = [];
  readonly #probes: Promise<void>[] = [];
  #started = 0;
  #after = 0;
  #sameTurn = 0;
  #next = 0;
  #done = 0;

  constructor(
    installation: Installation,
    revocables: readonly Revocable[],
    { calls }: { calls: number },
  ) {
    this.#installation = installation;
    this.#revocables = revocables;
    this.#calls = calls;
  }

  async run(): Promise<void> {
    await Promise.all([
      ...Array.from({ length: callers }, () => this.#caller()),
      ...Array.from({ length: revokers }, () => this.#revoker()),
    ]);
    await Promise.all(this.#probes);
  }

  progress(): string {
    return `${this.#started} calls, ${this.#done} revocations, ${this.#violations.length} violations`;
  }

  /** At the end every credential is refused at every node. */
  async checkAll(): Promise<void> {
    for (const one of this.#revocables) {
      await Promise.all(this.#installation.nodes.map((node) => this.#callAt(node, one)));
    }
  }

  report(seconds: number, faults: readonly Fault[]): StormReport {
    const unfinished = this.#revocables.filter(({ isRevoked }) => !isRevoked).length;
    if (unfinished > 0) this.#violations.push(`${unfinished} credentials were never revoked`);
    const revocationMs = this.#revocationMs.map(({ ms }) => ms);
    if (faults.length === 0) {
      for (const word of Object.keys(this.#answers.toJSON())) {
        if (!expected.has(word)) this.#violations.push(`an answer without a fault: ${word}`);
      }
    }
    return {
      nodes,
      calls: this.#started,
      seconds: Math.round(seconds),
      callsPerSecond: Math.round(this.#started / seconds),
      revocations: this.#revoked.toJSON(),
      revocationMs: {
        p50: percentile(revocationMs, 0.5),
        p99: percentile(revocationMs, 0.99),
        max: percentile(revocationMs, 1),
      },
      slowestRevocations: this.#revocationMs
        .toSorted((one, other) => other.ms - one.ms)
        .slice(0, 5)
        .map(({ kind, ms }) => `${kind}: ${Math.round(ms)} ms`),
      callMs: { p50: percentile(this.#callMs, 0.5), p99: percentile(this.#callMs, 0.99) },
      callsAfterRevocation: this.#after,
      callsInTheSameTurn: this.#sameTurn,
      answers: this.#answers,
      revocationAnswers: this.#revocationAnswers,
      neverAcceptedBefore: this.#revocables.filter(({ wasAccepted }) => !wasAccepted).length,
      faults: faults.map(({ name }) => name),
      violations: this.#violations,
    };
  }

  async #caller(): Promise<void> {
    while (this.#started < this.#calls) {
      await this.#callAt(this.#installation.pick(), this.#chosen());
    }
  }

  #chosen(): Revocable {
    const { length } = this.#revocables;
    const around = this.#next - window / 3 + Math.random() * window;
    const at = Math.random() < 0.8 ? around : Math.random() * length;
    const chosen = this.#revocables[Math.max(0, Math.min(length - 1, Math.floor(at)))];
    if (!chosen) throw new Error('there are no credentials');
    return chosen;
  }

  async #callAt(node: Parameters<typeof sendTo>[0], one: Revocable): Promise<void> {
    this.#started += 1;
    const { isRevoked } = one;
    const startedAt = performance.now();
    const reply = await sendTo(node, this.#installation, one.call);
    if (this.#started % 16 === 0) this.#callMs.push(performance.now() - startedAt);
    this.#answers.add(wordFor(reply));
    const accepted = isAccepted(reply);
    if (isRevoked) {
      this.#after += 1;
      if (accepted) this.#violations.push(`${one.kind} at ${node.name}: ${wordFor(reply)}`);
    } else if (accepted) one.wasAccepted = true;
  }

  /** Keeps the revocations spread over all calls. */
  async #revoker(): Promise<void> {
    const { length } = this.#revocables;
    while (this.#next < length) {
      // The first credentials are called for a while before they are revoked.
      const due = ((this.#next + 1) / (length + 1)) * this.#calls * 0.98;
      if (this.#started < due) {
        await pause(2);
        continue;
      }
      const one = this.#revocables[this.#next];
      this.#next += 1;
      if (one) await this.#revoke(one);
    }
  }

  async #revoke(one: Revocable): Promise<void> {
    // Possibly no random call has used this credential yet.
    for (let left = mostFirstCalls; left > 0 && !one.wasAccepted; left -= 1) {
      await this.#callAt(this.#installation.pick(), one);
    }
    let isOutcomeUnknown = false;
    for (;;) {
      const startedAt = performance.now();
      const reply = await send(this.#installation, one.revoke);
      this.#revocationAnswers.add(wordFor(reply));
      if (isDone(reply, isOutcomeUnknown)) {
        one.isRevoked = true;
        this.#revocationMs.push({ kind: one.kind, ms: performance.now() - startedAt });
        break;
      }
      if (reply.outcome === 'answer' && reply.status < 500) {
        throw new Error(`a ${one.kind} could not be revoked: ${reply.status} ${reply.text}`);
      }
      isOutcomeUnknown = true;
      await pause(50);
    }
    for (const node of this.#installation.nodes) {
      this.#sameTurn += 1;
      this.#probes.push(this.#callAt(node, one));
    }
    this.#done += 1;
    this.#revoked.add(one.kind);
  }
}

/**
 * What callers get without a fault: served, or refused in the way of their credential. A machine that is too slow for the load answers 503,
 * because PostgreSQL did not answer within a second; -32800 ends a call that was under way when its access was taken away.
 */
const expected = new Set(['200', '503 -32000', '200 -32800', '401 -32001', '200 -32602']);

/** A revocation without an answer may have taken effect: the next one then answers that there is nothing to revoke. */
function isDone(reply: Reply, isOutcomeUnknown: boolean): boolean {
  if (reply.outcome !== 'answer') return false;
  return reply.status < 300 || (isOutcomeUnknown && [404, 409].includes(reply.status));
}
