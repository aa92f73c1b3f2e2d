import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';

import type { SqliteDatabase, SqliteStatement } from 'kysely';

import { recalledRows } from './recalled-rows.ts';

/**
 * `node:sqlite` in the shape that Kysely's SQLite dialect asks for. Every statement is prepared once, and what a
 * question found is not looked up again while nothing is written.
 * A transaction takes the write lock when it begins: a deferred one fails at once, past any busy
 * timeout, when another process writes between its first read and its first write.
 */
export function nodeSqlite(database: DatabaseSync): SqliteDatabase {
  const prepared = new Map<string, SqliteStatement>();
  const recalled = recalledRows(database);

  const prepare = (sql: string): SqliteStatement => {
    const known = prepared.get(sql);
    if (known) return known;
    const plain = adapt(database.prepare(sql === 'begin' ? 'begin immediate' : sql));
    const statement = isQuestion(sql)
      ? { ...plain, all: (of: readonly unknown[]) => recalled(sql, of, () => plain.all(of)) }
      : sql === 'rollback'
        ? unlessRolledBack(plain, database)
        : plain;
    prepared.set(sql, statement);
    return statement;
  };

  return { prepare, close: () => database.close() };
}

/** Whether a statement reads. One that writes behind its subqueries is told by what it wrote: nobody recalls it. */
function isQuestion(sql: string): boolean {
  return /^\s*(select|with)\b/i.test(sql);
}

/** A full disk has rolled back already; failing here as well would hide why. */
function unlessRolledBack(statement: SqliteStatement, database: DatabaseSync): SqliteStatement {
  const nothing = { changes: 0, lastInsertRowid: 0 };
  return {
    ...statement,
    run: (parameters) => (database.isTransaction ? statement.run(parameters) : nothing),
  };
}

function adapt(statement: StatementSync): SqliteStatement {
  const values = (parameters: readonly unknown[]) => parameters as SQLInputValue[];
  return {
    reader: statement.columns().length > 0,
    all: (parameters) => statement.all(...values(parameters)),
    run: (parameters) => statement.run(...values(parameters)),
    iterate: (parameters) => statement.iterate(...values(parameters)),
  };
}
