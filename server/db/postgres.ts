import { Kysely, PostgresAdapter, PostgresDialect } from 'kysely';
import { Pool, types, type PoolConfig } from 'pg';

import { tableNamesOnly } from './migrate.ts';
import type { Schema } from './schema.ts';

/** Types of PostgreSQL, as in its table `pg_type`. */
const int8 = 20;
const numeric = 1700;

/**
 * Opens a PostgreSQL database, version 15 or newer.
 *
 * Counts, times and sums are read as numbers; one that a number cannot hold exactly is an error.
 */
export function openPostgres(config: PoolConfig): Kysely<Schema> {
  const pool = new Pool({ ...config, types: { getTypeParser } });
  // A connection that breaks, idle or in use, leaves the pool. Its query, if there is one, gets the error.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  const dialect = new PostgresDialect({ pool });
  dialect.createAdapter = () => new TransactionalAdapter();
  dialect.createIntrospector = tableNamesOnly;
  return new Kysely<Schema>({ dialect });
}

/** Migrations take a lock that ends with their transaction; Kysely's outlives one that fails. */
class TransactionalAdapter extends PostgresAdapter {
  override acquireMigrationLock(): Promise<void> {
    return Promise.resolve();
  }

  override releaseMigrationLock(): Promise<void> {
    return Promise.resolve();
  }
}

const getTypeParser: typeof types.getTypeParser = (oid: number, format?: 'text' | 'binary') =>
  oid === int8 || oid === numeric ? readNumber : types.getTypeParser(oid, format);

function readNumber(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`${text} does not fit into a number`);
  return value;
}
