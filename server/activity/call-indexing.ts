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
/** How many quarters one step looks at: a day. */
const quartersAtOnce = 96;
const commitMs = 1000;
/** The most numbers that are noted for calls that are not indexed yet: about 16 MB. */
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
 * start, it also looks for older calls that have no index yet. It need not read calls that this process has written.
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
    // Calls that have only begun are read from the database once they have ended.
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
        // The next organizations do not depend on this one.
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
      // The noted calls still name a person whose calls get a pseudonym.
      const mayUseNoted = !(await hasPseudonymRequests(db, organizationId));
      for (const one of claimed) {
        // Other nodes may claim the remaining quarters after a while.
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
  /** The quarter of the last call: its ids are from `low` (inclusive) to `high` (exclusive). The next call is often in it, too. */
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

  /** Returns the calls noted for a quarter, and forgets them. */
  take(quarter: CallQuarter): SubjectSeconds | undefined {
    const key = keyOf(quarter);
    const noted = this.#quarters.get(key);
    this.#quarters.delete(key);
    this.#last = undefined;
    return noted;
  }

  /** Forgets the quarters before this one: they are indexed, or another process indexes them. */
  forgetBefore(quarter: number): void {
    for (const key of this.#quarters.keys()) {
      if (Number(key.split(' ')[0]) < quarter) this.#quarters.delete(key);
    }
    this.#last = undefined;
  }

  /** Forgets all noted calls if there are too many. The index then reads their quarters from the database. */
  #measure(): void {
    this.#unmeasured = 0;
    const size = [...this.#quarters.values()].reduce((sum, noted) => sum + noted.size, 0);
    if (size <= mostNoted) return;
    this.#quarters.clear();
    this.#last = undefined;
  }
}

/** After so many calls, the size of the noted calls is measured. Each call adds at most a few hundred numbers. */
const measuredAfter = 1000;

function keyOf({ organizationId, quarter }: Pick<CallQuarter, 'organizationId' | 'quarter'>) {
  return `${quarter} ${organizationId}`;
}
