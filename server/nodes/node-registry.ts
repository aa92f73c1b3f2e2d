import { sql } from 'kysely';
import type { EpochSeconds } from '#model/clock';
import type { Schema } from '#db/schema';
import type { Db } from '#db/transaction';
import { randomBase62 } from '#secrets/secrets';

const seenEveryMs = 2000;
/** A node that was not seen for this long refuses every call until it is seen again. */
export const leaseMs = 5000;
/** The largest tolerated clock skew, because each node checks expiry times by its own clock. */
export const mostSkewMs = 2000;
/** How long a node stays listed after it was last seen. */
const listedSeconds = 3600;

/** A random name for a process, never used before. */
export const newInstance = () => randomBase62(16);

/** A process that serves this installation. */
export interface NodeRecord {
  /** Random for each process. */
  readonly instance: string;
  readonly name: string;
  readonly version: string;
  readonly startedAt: EpochSeconds;
  /** In the time of the database. */
  readonly seenAt: EpochSeconds;
  /** By how much the clock of its host is ahead of the clock of the database. */
  readonly clockSkewMs: number;
  /** Whether it admits callers now. */
  readonly isAlive: boolean;
}

export interface NodeRegistryPorts {
  readonly name: string;
  readonly version: string;
  readonly failed: (error: unknown) => void;
}

/**
 * Writes to the database, every two seconds, that this process is alive. If that fails for five seconds, the process must not trust
 * what it reads, because it may be connected to a database server that has been replaced.
 */
export class NodeRegistry {
  readonly instance = newInstance();
  readonly #db: Db;
  readonly #ports: NodeRegistryPorts;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #seenAtMs = 0;
  #clockSkewMs = 0;
  #alive: readonly string[] = [];

  constructor(db: Db, ports: NodeRegistryPorts) {
    this.#db = db;
    this.#ports = ports;
  }

  /** Enters this process in the list of nodes. */
  async open(): Promise<void> {
    await this.#write();
    this.#timer = setInterval(() => void this.#see(), seenEveryMs).unref();
  }

  /** Whether the database has confirmed within the last five seconds that this process is alive. */
  isSeen(): boolean {
    return performance.now() - this.#seenAtMs <= leaseMs;
  }

  /** By how much the clock of this host is ahead of the clock of the database, when it was last read. */
  get clockSkewMs(): number {
    return this.#clockSkewMs;
  }

  /** The instances that were alive when this one was last seen, itself included, in the order of their names. */
  get alive(): readonly string[] {
    return this.#alive;
  }

  /** @throws {Error} that says why this node must not get calls */
  checkReady(): void {
    if (!this.isSeen()) throw new Error('the database has not seen this node lately');
    if (Math.abs(this.#clockSkewMs) > mostSkewMs) {
      throw new Error(
        `the clock differs by ${this.#clockSkewMs} ms from the clock of the database`,
      );
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#writing;
    await this.#db.deleteFrom('node').where('instance', '=', this.instance).execute();
  }

  #see(): Promise<void> {
    this.#writing ??= this.#write()
      .catch((error: unknown) => this.#ports.failed(error))
      .finally(() => {
        this.#writing = undefined;
      });
    return this.#writing;
  }

  async #write(): Promise<void> {
    // The time before the write, because the write proves only that the connection was valid when it began.
    const begunAtMs = performance.now();
    const wallMs = Date.now();
    const { name, version } = this.#ports;
    const { rows } = await sql<{ now_ms: number }>`
      insert into node (instance, name, version, started_at, seen_at, clock_skew_ms)
        values (${this.instance}, ${name}, ${version}, ${databaseSeconds}, ${databaseSeconds}, ${this.#clockSkewMs})
        on conflict (instance) do update set seen_at = excluded.seen_at, clock_skew_ms = excluded.clock_skew_ms
        returning (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms`.execute(
      this.#db,
    );
    const tookMs = performance.now() - begunAtMs;
    this.#clockSkewMs = Math.round(wallMs + tookMs / 2 - Number(rows[0]?.now_ms));
    this.#seenAtMs = begunAtMs;
    const alive = await sql<{ instance: string }>`select instance from node
      where seen_at >= ${databaseSeconds} - ${leaseMs / 1000} order by instance`.execute(this.#db);
    this.#alive = alive.rows.map(({ instance }) => instance);
    await sql`delete from node where seen_at < ${databaseSeconds} - ${listedSeconds}`.execute(
      this.#db,
    );
  }
}

/** The time by the clock of the database. */
export const databaseSeconds = sql<number>`extract(epoch from clock_timestamp())::bigint`;

/** All nodes that were seen during the last hour, the newest first. */
export async function listNodes(db: Db): Promise<readonly NodeRecord[]> {
  const { rows } = await sql<
    Schema['node'] & { is_alive: boolean }
  >`select node.*, seen_at >= ${databaseSeconds} - ${leaseMs / 1000} as is_alive
    from node order by started_at desc, instance`.execute(db);
  return rows.map((row) => ({
    instance: row.instance,
    name: row.name,
    version: row.version,
    startedAt: row.started_at,
    seenAt: row.seen_at,
    clockSkewMs: row.clock_skew_ms,
    isAlive: row.is_alive,
  }));
}
