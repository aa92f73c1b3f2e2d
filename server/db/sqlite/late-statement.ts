import type { DatabaseSync, StatementSync } from 'node:sqlite';

/** Compiles a statement at its first use, because most connections never use it: those of commands, for example. */
export function lateStatement(connection: DatabaseSync, sql: string): () => StatementSync {
  let statement: StatementSync | undefined;
  return () => (statement ??= connection.prepare(sql));
}
