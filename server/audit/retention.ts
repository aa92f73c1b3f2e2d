import type { Clock } from '#model/clock';
import { RepeatedWork } from '#model/repeated-work';
import { removeOldAuditEvents } from '#db/audit';
import type { Db } from '#db/transaction';

const everyMs = 3_600_000;
/** How many events one transaction removes. A larger one would block other writers for too long. */
const batch = 1000;

export interface AuditRetentionPorts {
  readonly db: Db;
  readonly clock: Clock;
  /** How long events are kept. */
  readonly days: number;
  readonly failed: (error: unknown) => void;
}

/** Removes old events of the audit log, at the start and every hour. Several nodes take turns. */
export class AuditRetention extends RepeatedWork {
  readonly #ports: AuditRetentionPorts;

  constructor(ports: AuditRetentionPorts) {
    super(everyMs, ports.failed);
    this.#ports = ports;
    void this.run();
  }

  /** Removes all events that are old now, and were sent to all active webhooks of their organization. */
  protected override async work(): Promise<void> {
    const { db, clock, days } = this.#ports;
    const now = clock.now();
    const before = now - days * 86_400;
    let removed = batch;
    while (removed === batch && !this.isClosed) {
      removed = await removeOldAuditEvents(db, { before, limit: batch, now });
    }
  }
}
