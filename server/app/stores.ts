import { join } from 'node:path';
import { makeDataFolder } from '#config/data-folder';
import { CommandError } from '#config/usage-error';
import { agentDirectory, type AgentDirectory } from '#db/agent-directory';
import { admissionStore, type AdmissionStore } from '#db/admissions';
import { migrate } from '#db/migrate';
import { sqliteAdmissions } from '#db/sqlite/admission-store';
import { sqliteChanges } from '#db/sqlite/change-store';
import { lockFile, openSqlite, writeBackup } from '#db/sqlite/open-sqlite';
import type { Db } from '#db/transaction';
import type { ChangeStore } from '#db/changes';

/** The file in the data folder that holds the database. */
export const databaseName = 'latchkey.db';

/** An open database, and the stores that read it in special ways. */
export interface Stores {
  readonly db: Db;
  readonly admissions: AdmissionStore;
  readonly agentDirectory: AgentDirectory;
  readonly changes: ChangeStore;
  /** The number of waiting queries, by what they wait for. */
  waiting(): Readonly<Record<string, number>>;
  /** Writes a copy to a new file. @throws {CommandError} if the database has tools of its own for that */
  backUp(copy: string): void;
  close(): Promise<void>;
}

/** The additional members of a SQLite database. */
export interface OpenStores extends Stores {
  readonly connection: ReturnType<typeof openSqlite>['connection'];
}

/**
 * Keeps other servers from using a data folder until the returned lock is closed or this process ends: each would send the same
 * webhooks and keep sessions of its own. Processes of one server and administrative commands share the folder.
 *
 * @throws {CommandError} if the folder cannot be created, or another server uses it
 */
export function lockDataFolder(dataDir: string): { close(): void } {
  makeDataFolder(dataDir);
  const lock = lockFile(join(dataDir, 'server.lock'));
  if (lock) return lock;
  throw new CommandError(
    `another server uses the data folder ${dataDir}`,
    'stop it first, or choose another folder with --data-dir; to use more cores, start one server with --processes',
  );
}

/**
 * Opens the database in `dataDir`, or creates it, and migrates it to the newest schema.
 *
 * @throws {CommandError} if the folder cannot be created
 */
export async function openStores(dataDir: string): Promise<OpenStores> {
  makeDataFolder(dataDir);
  return openStoresAt(join(dataDir, databaseName));
}

/** Opens a database file. `:memory:` is a database that is lost when it is closed. */
export async function openStoresAt(file: string): Promise<OpenStores> {
  const opened = openSqlite(file);
  await migrate(opened.db);
  return storesOver(opened);
}

/** The stores over an open database that has the newest schema. */
export function storesOver({ db, connection }: ReturnType<typeof openSqlite>): OpenStores {
  const changes = sqliteChanges(connection);
  return {
    db,
    connection,
    admissions: sqliteAdmissions(connection),
    agentDirectory: agentDirectory(db, () => changes.changeToken()),
    changes,
    // SQLite answers synchronously, so nothing waits.
    waiting: () => ({}),
    backUp: (copy: string) => writeBackup(connection, copy),
    close: () => db.destroy(),
  };
}

/**
 * Time limits of PostgreSQL connections: a process that hangs inside a transaction must not keep its locks, and a query must not
 * wait for ever for a database that does not answer.
 */
const limits = {
  connectionTimeoutMillis: 5000,
  idle_in_transaction_session_timeout: 5000,
  statement_timeout: 30_000,
  query_timeout: 35_000,
  keepAlive: true,
};

export interface PostgresPlace {
  /** `postgres://USER:PASSWORD@HOST:PORT/DATABASE` */
  readonly url: string;
  /** How many connections queries may open. Default: 10. */
  readonly connections?: number;
  /** Whether an asynchronous standby is accepted, which lacks the last confirmed writes when it takes over. */
  readonly mayLoseWrites: boolean;
}

export interface PostgresPorts {
  /** Whether admissions may be read: see `NodeRegistry`. A command admits no calls: it omits this, and opens no connection for it. */
  readonly mayAdmit?: () => boolean;
  /** Called when a connection breaks, or when looking for changes fails. */
  readonly failed: (error: unknown) => void;
}

/**
 * Opens a PostgreSQL database, and migrates it to the newest schema.
 *
 * @throws {CommandError} that says why it cannot be used
 */
export async function openPostgresStores(
  { url, connections, mayLoseWrites }: PostgresPlace,
  { mayAdmit, failed }: PostgresPorts,
): Promise<Stores> {
  // The client of PostgreSQL takes a while to load, and SQLite does not need it.
  const [{ AdmissionReader }, { PostgresChanges }, { checkPostgres }, { overPool, postgresPool }] =
    await Promise.all([
      import('#db/postgres/admission-reader'),
      import('#db/postgres/change-store'),
      import('#db/postgres/check-postgres'),
      import('#db/postgres/open-postgres'),
    ]);
  const pool = postgresPool({ connectionString: url, max: connections, ...limits });
  const reader = new AdmissionReader(
    { connectionString: url },
    { mayAnswer: mayAdmit ?? (() => false), failed },
  );
  const db = overPool(pool, reader.read);
  try {
    await checkPostgres(db, { url, mayLoseWrites });
    await migrate(db);
  } catch (error) {
    await db.destroy();
    throw error;
  }
  const [changes] = await Promise.all([
    PostgresChanges.open(db, failed),
    mayAdmit && reader.open(),
  ]);
  const changeToken = () => changes.changeToken();
  return {
    db,
    admissions: admissionStore(reader.read, changeToken),
    agentDirectory: agentDirectory(db, changeToken),
    changes,
    waiting: () => ({ admission: reader.waiting, connection: pool.waitingCount }),
    backUp() {
      throw new CommandError(
        'this command copies SQLite databases only',
        'back up PostgreSQL with its own tools, for example pg_dump: see docs/scaling.md',
      );
    },
    async close() {
      await changes.close();
      await reader.close();
      await db.destroy();
    },
  };
}
