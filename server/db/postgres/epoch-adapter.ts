import { PostgresAdapter } from 'kysely';
import type { ReadKept } from '#db/kept-query';

/** Tells Kysely what our PostgreSQL can do, and leads to what is kept under the epoch. */
export class EpochAdapter extends PostgresAdapter {
  /** Reads a row as of now, without a query of its own while the epoch is the same; absent where nothing is kept. */
  readonly read: ReadKept | undefined;

  constructor(read?: ReadKept) {
    super();
    this.read = read;
  }

  /** Kysely's lock outlives a failed migration. `migrate` takes one that ends with the transaction. */
  override acquireMigrationLock(): Promise<void> {
    return Promise.resolve();
  }

  override releaseMigrationLock(): Promise<void> {
    return Promise.resolve();
  }
}
