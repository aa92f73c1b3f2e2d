import { sql } from 'kysely';
import type { Db } from '#server/db/transaction';

/** Returns a function that says, over another connection, whether another transaction of PostgreSQL waits for this one. */
export async function waitedFor(tx: Db, { db }: { db: Db }): Promise<() => Promise<boolean>> {
  const own = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(tx);
  const pid = own.rows[0]?.pid ?? 0;
  return async () => {
    const { rows } = await sql`select 1 from pg_stat_activity
      where ${pid}::int = any(pg_blocking_pids(pid))`.execute(db);
    return rows.length > 0;
  };
}
