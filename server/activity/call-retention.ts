import { setImmediate as afterOtherWork } from 'node:timers/promises';

import { deleteOldContents, nextStoringTarget, type StoringTarget } from '#db/call-contents';
import { deleteOldGaps } from '#db/call-gaps';
import { deleteCallIndex, deleteOldCalls, nextOrganizationWithCalls } from '#db/calls';
import type { Db } from '#db/transaction';
import type { Clock } from '#model/clock';
import { RepeatedWork } from '#model/repeated-work';

const everyMs = 3_600_000;
/** How many calls one transaction deletes. A larger one would block the writer of new calls for too long. */
const batch = 500;

export interface CallRetentionPorts {
  readonly db: Db;
  readonly clock: Clock;
  readonly failed: (error: unknown) => void;
}

/** Deletes the arguments and results of a target that are too old, or that an owner deleted, in small steps. */
export async function deleteContentsOf(
  { organizationId, targetId, days, deletedBeforeMs }: StoringTarget,
  { db, clock }: Pick<CallRetentionPorts, 'db' | 'clock'>,
  isStopped: () => boolean = () => false,
): Promise<void> {
  const beforeMs = Math.max((clock.now() - days * 86_400) * 1000, deletedBeforeMs);
  const limit = batch / 5;
  let deleted = limit;
  while (deleted === limit && !isStopped()) {
    deleted = await deleteOldContents(db, { organizationId, targetId, beforeMs, limit });
    await afterOtherWork();
  }
}

/** Deletes the old calls of each organization, at the start and every hour. Several nodes may do so at the same time. */
export class CallRetention extends RepeatedWork {
  readonly #ports: CallRetentionPorts;

  constructor(ports: CallRetentionPorts) {
    super(everyMs, ports.failed);
    this.#ports = ports;
    void this.run();
  }

  /** Deletes old contents, calls and gaps, and all calls of organizations that no longer exist. */
  protected override async work(): Promise<void> {
    await this.#deleteContents();
    await this.#deleteAll();
    await deleteOldGaps(this.#ports.db, this.#ports.clock.now());
  }

  /** Arguments and results have a retention time of their own. */
  async #deleteContents(): Promise<void> {
    let target = this.isClosed ? undefined : await nextStoringTarget(this.#ports.db, undefined);
    while (target && !this.isClosed) {
      await deleteContentsOf(target, this.#ports, () => this.isClosed);
      target = await nextStoringTarget(this.#ports.db, target);
    }
  }

  async #deleteAll(): Promise<void> {
    const { db, clock } = this.#ports;
    let after = '';
    while (!this.isClosed) {
      const organization = await nextOrganizationWithCalls(db, after);
      if (!organization) return;
      const { id, retentionDays } = organization;
      await this.#deleteBefore(id, clock.now() - (retentionDays ?? 0) * 86_400);
      if (retentionDays === undefined && !this.isClosed) await deleteCallIndex(db, id);
      after = id;
    }
  }

  async #deleteBefore(organizationId: string, before: number): Promise<void> {
    let deleted = batch;
    while (deleted === batch && !this.isClosed) {
      const old = { organizationId, beforeMs: before * 1000, limit: batch };
      deleted = await deleteOldCalls(this.#ports.db, old);
      // SQLite answers within the same turn of the event loop, and calls must not wait for all steps.
      await afterOtherWork();
    }
  }
}
