import { setTimeout as pause } from 'node:timers/promises';

import {
  type CallQuarter,
  claimQuarters,
  indexQuarter,
  newestCallBefore,
  unindexedQuarters,
} from '#db/call-index';
import { hasPseudonymRequests } from '#db/call-pseudonyms';
import { SubjectSeconds } from '#db/call-seconds';
import {
  callIdAt,
  callQuarterMs,
  callQuarterOf,
  type CallWrites,
  nextOrganizationWithCalls,
  writtenAtMs,
} from '#db/calls';
import type { Db } from '#db/transaction';
import type { CallRecord } from '#model/calls';
import { RepeatedWork } from '#model/repeated-work';

const lookEveryMs = 60_000;
/** A quarter is indexed this long after its end: rows of it may still be written. */
const settledAfterMs = 120_000;
/** Quarters that are looked at together: a day. */
const quartersAtOnce = 96;
const commitMs = 1000;
/** What is noted of calls until they are indexed, in numbers: about 16 MB. */
const mostNoted = 2_000_000;

export interface CallIndexingPorts {
  readonly db: Db;
  readonly nowMs: () => number;
  readonly failed: (error: unknown) => void;
  /** How long a transaction that has written rows may take to be committed. Default: a second. */
  readonly commitMs?: number;
}

/**
 * Indexes recorded calls once their quarter of an hour is over, the newest ones first. Several nodes may do so at the same time. At the
 * start, it also looks for older ones that have no index yet. Calls that this process has written need not be read again.
 */
export class CallIndexing extends RepeatedWork {
  readonly #ports: CallIndexingPorts;
  /** The quarters before this one are indexed. */
  #indexedTo = 0;
  readonly #noted = new NotedQuarters();

  constructor(ports: CallIndexingPorts) {
    super(lookEveryMs, ports.failed);
    this.#ports = ports;
    void this.run();
  }

  /** Notes calls that this process has written, for the index. */
  wrote({ calls, isDurable }: Pick<CallWrites, 'calls' | 'isDurable'>): void {
    // Those that have only begun are read once they have ended.
    if (isDurable) return;
    for (const call of calls) this.#noted.add(call);
  }

  /** Indexes all quarters that are over. */
  protected override async work(): Promise<void> {
    const end = callQuarterOf(this.#ports.nowMs() - settledAfterMs);
    if (end <= this.#indexedTo) return;
    // A call that ends late takes its quarter out of the index. Calls do not run for more than a day.
    const least = this.#indexedTo === 0 ? 0 : this.#indexedTo - quartersAtOnce;
    let organization = await nextOrganizationWithCalls(this.#ports.db, '');
    let hasFailed = false;
    while (organization && !this.isClosed) {
      try {
        await this.#indexOrganization(organization.id, least, end);
      } catch (error) {
        // Those that follow do not depend on it.
        this.#ports.failed(error);
        hasFailed = true;
      }
      organization = await nextOrganizationWithCalls(this.#ports.db, organization.id);
    }
    if (this.isClosed || hasFailed) return;
    this.#indexedTo = end;
    this.#noted.forgetBefore(end);
  }

  /** @param end exclusive */
  async #indexOrganization(organizationId: string, least: number, end: number): Promise<void> {
    const { db, nowMs } = this.#ports;
    for (let high = end; high > least && !this.isClosed; high -= quartersAtOnce) {
      const newestMs = await newestCallBefore(db, organizationId, high * callQuarterMs);
      if (newestMs === undefined) return;
      high = callQuarterOf(newestMs) + 1;
      const low = Math.max(least, high - quartersAtOnce);
      const quarters = await unindexedQuarters(db, organizationId, low, high);
      const claimed = await claimQuarters(db, organizationId, quarters, nowMs());
      if (claimed.length === 0) continue;
      await pause(this.#ports.commitMs ?? commitMs);
      // Calls that get a pseudonym were noted with the person.
      const mayUseNoted = !(await hasPseudonymRequests(db, organizationId));
      for (const one of claimed) {
        // Others may claim the remaining ones after a while.
        if (this.isClosed) return;
        const noted = this.#noted.take(one);
        await indexQuarter(db, one, mayUseNoted ? noted : undefined);
      }
    }
  }
}

interface NotedQuarter {
  readonly organizationId: string;
  readonly low: string;
  readonly high: string;
  readonly noted: SubjectSeconds;
}

/** Calls that this process has written in quarters that are not indexed yet. */
class NotedQuarters {
  readonly #quarters = new Map<string, SubjectSeconds>();
  /** Those of the last call: its ids are from `low` (inclusive) to `high` (exclusive). The next call is often one of them. */
  #last: NotedQuarter | undefined;
  /** How many calls were noted since the memory was measured. */
  #unmeasured = 0;

  add(call: CallRecord): void {
    const { organizationId, id } = call;
    let last = this.#last;
    if (!last || last.organizationId !== organizationId || id < last.low || id >= last.high) {
      const quarter = callQuarterOf(writtenAtMs(id));
      const noted = this.#of({ organizationId, quarter });
      const low = callIdAt(quarter * callQuarterMs);
      const high = callIdAt((quarter + 1) * callQuarterMs);
      last = { organizationId, noted, low, high };
      this.#last = last;
    }
    last.noted.noteCall(call);
    this.#unmeasured += 1;
    if (this.#unmeasured >= measuredAfter) this.#measure();
  }

  #of(quarter: Pick<CallQuarter, 'organizationId' | 'quarter'>): SubjectSeconds {
    const key = keyOf(quarter);
    const noted = this.#quarters.get(key) ?? new SubjectSeconds(quarter.quarter);
    this.#quarters.set(key, noted);
    return noted;
  }

  /** What was noted of a quarter, which is then forgotten. */
  take(quarter: CallQuarter): SubjectSeconds | undefined {
    const key = keyOf(quarter);
    const noted = this.#quarters.get(key);
    this.#quarters.delete(key);
    this.#last = undefined;
    return noted;
  }

  /** Quarters that are indexed, or that another process indexes. */
  forgetBefore(quarter: number): void {
    for (const key of this.#quarters.keys()) {
      if (Number(key.split(' ')[0]) < quarter) this.#quarters.delete(key);
    }
    this.#last = undefined;
  }

  /** Forgets everything if it is too much. The quarters are read then. */
  #measure(): void {
    this.#unmeasured = 0;
    const size = [...this.#quarters.values()].reduce((sum, noted) => sum + noted.size, 0);
    if (size <= mostNoted) return;
    this.#quarters.clear();
    this.#last = undefined;
  }
}

/** Calls after which the memory of what is noted is measured. Each takes at most a few hundred numbers. */
const measuredAfter = 1000;

function keyOf({ organizationId, quarter }: Pick<CallQuarter, 'organizationId' | 'quarter'>) {
  return `${quarter} ${organizationId}`;
}
