import { setTimeout as pause } from 'node:timers/promises';

import { claimQuarters, indexQuarter, newestCallBefore, unindexedQuarters } from '#db/call-index';
import { callQuarterMs, callQuarterOf, nextOrganizationWithCalls } from '#db/calls';
import type { Db } from '#db/transaction';

const lookEveryMs = 60_000;
/** A quarter is indexed this long after its end: rows of it may still be written. */
const settledAfterMs = 120_000;
/** Quarters that are looked at together: a day. */
const quartersAtOnce = 96;
const commitMs = 1000;

export interface CallIndexingPorts {
  readonly db: Db;
  readonly nowMs: () => number;
  readonly failed: (error: unknown) => void;
  /** How long a transaction that has written rows may take to be committed. Default: a second. */
  readonly commitMs?: number;
}

/**
 * Indexes recorded calls once their quarter of an hour is over, the newest ones first. Several nodes may do so at the same time. At the
 * start, it also looks for older ones that have no index yet.
 */
export class CallIndexing {
  readonly #ports: CallIndexingPorts;
  readonly #timer: NodeJS.Timeout;
  /** The quarters before this one are indexed. */
  #indexedTo = 0;
  #isClosed = false;
  #indexing: Promise<void> | undefined;

  constructor(ports: CallIndexingPorts) {
    this.#ports = ports;
    this.#timer = setInterval(() => void this.index(), lookEveryMs).unref();
    void this.index();
  }

  /** Indexes all quarters that are over. */
  index(): Promise<void> {
    const end = callQuarterOf(this.#ports.nowMs() - settledAfterMs);
    if (end <= this.#indexedTo) return this.#indexing ?? Promise.resolve();
    this.#indexing ??= this.#indexAll(end)
      .catch((error: unknown) => this.#ports.failed(error))
      .finally(() => {
        this.#indexing = undefined;
      });
    return this.#indexing;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#indexing;
  }

  async #indexAll(end: number): Promise<void> {
    // A call that ends late takes its quarter out of the index. Calls do not run for more than a day.
    const least = this.#indexedTo === 0 ? 0 : this.#indexedTo - quartersAtOnce;
    let organization = await nextOrganizationWithCalls(this.#ports.db, '');
    while (organization && !this.#isClosed) {
      await this.#indexOrganization(organization.id, least, end);
      organization = await nextOrganizationWithCalls(this.#ports.db, organization.id);
    }
    if (!this.#isClosed) this.#indexedTo = end;
  }

  /** @param end exclusive */
  async #indexOrganization(organizationId: string, least: number, end: number): Promise<void> {
    const { db, nowMs } = this.#ports;
    for (let high = end; high > least && !this.#isClosed; high -= quartersAtOnce) {
      const newestMs = await newestCallBefore(db, organizationId, high * callQuarterMs);
      if (newestMs === undefined) return;
      high = callQuarterOf(newestMs) + 1;
      const low = Math.max(least, high - quartersAtOnce);
      const quarters = await unindexedQuarters(db, organizationId, low, high);
      const claimed = await claimQuarters(db, organizationId, quarters, nowMs());
      if (claimed.length === 0) continue;
      await pause(this.#ports.commitMs ?? commitMs);
      for (const one of claimed) {
        // Others may claim the remaining ones after a while.
        if (this.#isClosed) return;
        await indexQuarter(db, one);
      }
    }
  }
}
