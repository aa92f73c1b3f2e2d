import type { Clock } from '#model/clock';
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
export class AuditRetention {
  readonly #ports: AuditRetentionPorts;
  readonly #timer: NodeJS.Timeout;
  #isClosed = false;
  #removing: Promise<void> | undefined;

  constructor(ports: AuditRetentionPorts) {
    this.#ports = ports;
    this.#timer = setInterval(() => void this.remove(), everyMs).unref();
    void this.remove();
  }

  /** Removes all events that are old now. */
  remove(): Promise<void> {
    this.#removing ??= this.#removeAll()
      .catch((error: unknown) => this.#ports.failed(error))
      .finally(() => {
        this.#removing = undefined;
      });
    return this.#removing;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#removing;
  }

  async #removeAll(): Promise<void> {
    const { db, clock, days } = this.#ports;
    const now = clock.now();
    const before = now - days * 86_400;
    let removed = batch;
    while (removed === batch && !this.#isClosed) {
      removed = await removeOldAuditEvents(db, { before, limit: batch, now });
    }
  }
}
