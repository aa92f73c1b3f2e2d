import type { DatabaseSync } from 'node:sqlite';

/**
 * Another text than before, once anything was written: `data_version` moves when another connection wrote,
 * `total_changes` when this one did.
 */
export function sqliteWritten(connection: DatabaseSync): () => string {
  const others = connection.prepare('pragma data_version');
  const own = connection.prepare('select total_changes() as count');
  return () => `${Number(others.get()?.['data_version'])}/${Number(own.get()?.['count'])}`;
}
