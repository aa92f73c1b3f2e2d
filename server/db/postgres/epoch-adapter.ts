import { PostgresAdapter } from 'kysely';
import type { ReadKept } from '#db/kept-query';

/** Tells Kysely what our PostgreSQL can do, and reads the rows that are kept under the epoch. */
export class EpochAdapter extends PostgresAdapter {
  /** Reads a current row, without a query of its own while the epoch is the same; `undefined` if no rows are kept. */
  readonly read: ReadKept | undefined;

  constructor(read?: ReadKept) {
    super();
    this.read = read;
  }

  /** Kysely's lock outlives a failed migration. `migrate` takes a lock that ends with the transaction. */
  override acquireMigrationLock(): Promise<void> {
    return Promise.resolve();
  }

  override releaseMigrationLock(): Promise<void> {
    return Promise.resolve();
  }
}
