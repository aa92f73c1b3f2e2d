import { type DatabaseConnection, Kysely, PostgresDialect, PostgresDriver } from 'kysely';
import { type ClientBase, Pool, types, type PoolConfig } from 'pg';

import { DatabaseUnavailable } from '#db/faults';
import { tableNamesOnly } from '#db/migrate';
import type { Schema } from '#db/schema';
import { untilNoDeadlock } from '#db/transaction';
import type { ReadKept } from '#db/kept-query';
import { reasonOf } from './check-postgres.ts';
import { EpochAdapter } from './epoch-adapter.ts';

/** Object ids of PostgreSQL's types, from its table `pg_type`. */
const int8 = 20;
const numeric = 1700;

/**
 * Opens a PostgreSQL database, version 15 or newer.
 *
 * Counts, times and sums are read as numbers. Reading one that is not a safe integer throws a `RangeError`.
 */
export function openPostgres(config: PoolConfig): Kysely<Schema> {
  return overPool(postgresPool(config));
}

/** The pool of connections that `openPostgres` uses. */
export function postgresPool(config: PoolConfig): Pool {
  // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for it, which its types do not say
  const pool = new Pool({ ...config, types: numberTypes, onConnect: withoutCompiling });
  // The pool drops a broken connection. If it was in use, its query rejects with the error.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

/**
 * PostgreSQL compiles queries that it estimates to be expensive. Compiling takes longer than any of our queries runs.
 *
 * PostgreSQL §32.1
 */
async function withoutCompiling(client: ClientBase): Promise<void> {
  await client.query('set jit = off');
}

/** @param read reads what is kept under the epoch; default: everything is read from the pool */
export function overPool(pool: Pool, read?: ReadKept): Kysely<Schema> {
  const config = {
    pool: {
      options: pool.options,
      async connect() {
        try {
          return await pool.connect();
        } catch (cause) {
          throw new DatabaseUnavailable(reasonOf(cause), { cause });
        }
      },
      end: () => pool.end(),
    },
  };
  const dialect = new PostgresDialect(config);
  dialect.createDriver = () => new RepeatingDriver(config);
  dialect.createAdapter = () => new EpochAdapter(read);
  dialect.createIntrospector = tableNamesOnly;
  return new Kysely<Schema>({ dialect });
}

/**
 * Runs a statement outside of a transaction again after a deadlock, which any statement that changes several rows may cause.
 * Transactions are run again as a whole: see `transaction`.
 */
class RepeatingDriver extends PostgresDriver {
  readonly #known = new WeakSet<DatabaseConnection>();
  readonly #inTransaction = new WeakSet<DatabaseConnection>();

  override async acquireConnection(): Promise<DatabaseConnection> {
    const connection = await super.acquireConnection();
    if (this.#known.has(connection)) return connection;
    this.#known.add(connection);
    const execute = connection.executeQuery.bind(connection);
    connection.executeQuery = (query) =>
      this.#inTransaction.has(connection) ? execute(query) : untilNoDeadlock(() => execute(query));
    return connection;
  }

  override async beginTransaction(
    ...[connection, settings]: Parameters<PostgresDriver['beginTransaction']>
  ): Promise<void> {
    this.#inTransaction.add(connection);
    await super.beginTransaction(connection, settings);
  }

  override async releaseConnection(
    ...[connection]: Parameters<PostgresDriver['releaseConnection']>
  ): Promise<void> {
    this.#inTransaction.delete(connection);
    await super.releaseConnection(connection);
  }
}

const getTypeParser: typeof types.getTypeParser = (oid: number, format?: 'text' | 'binary') =>
  oid === int8 || oid === numeric ? readNumber : types.getTypeParser(oid, format);

/** How values are read: counts, times and sums as numbers. */
export const numberTypes = { getTypeParser };

function readNumber(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`${text} does not fit into a number`);
  return value;
}
