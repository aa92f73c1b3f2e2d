import type { DatabaseSync, StatementSync } from 'node:sqlite';

/** Compiles a statement at its first use: many connections never need it, and most commands end before any of them is used. */
export function lateStatement(connection: DatabaseSync, sql: string): () => StatementSync {
  let statement: StatementSync | undefined;
  return () => (statement ??= connection.prepare(sql));
}
