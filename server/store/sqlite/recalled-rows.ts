import type { DatabaseSync } from 'node:sqlite';

import { sqliteWritten } from './written.ts';

/** Characters and values together: about so many bytes of memory. */
const mostKept = 8_000_000;
const mostOfOne = 500_000;
const ofRow = 100;

/**
 * Remembers the rows of questions until anything is written, by whatever process. Whether something was is looked at
 * before each answer, which costs a fraction of reading the rows, so that nobody gets rows that the database would not
 * give at that moment. Inside a transaction of this connection nothing is remembered, as it may be taken back. The rows
 * are frozen, as several share them.
 */
export function recalledRows(connection: DatabaseSync) {
  const written = sqliteWritten(connection);
  const kept = new Map<string, Map<string, unknown[]>>();
  let asOf = '';
  let size = 0;

  /** @param sql a question: it reads, and nothing but what is in the database decides its answer */
  return (sql: string, parameters: readonly unknown[], read: () => unknown[]): unknown[] => {
    if (connection.isTransaction || !parameters.every(isTold)) return read();
    const now = written();
    if (now !== asOf || size > mostKept) {
      kept.clear();
      asOf = now;
      size = 0;
    }
    let answers = kept.get(sql);
    if (!answers) kept.set(sql, (answers = new Map<string, unknown[]>()));
    const asked = JSON.stringify(parameters);
    const known = answers.get(asked);
    if (known) return known;
    const rows = read();
    const own = asked.length + ofRow + sizeOf(rows);
    if (own > mostOfOne) return rows;
    for (const row of Object.freeze(rows)) Object.freeze(row);
    answers.set(asked, rows);
    size += own;
    return rows;
  };
}

/** Whether JSON tells a value from every other. */
function isTold(value: unknown): boolean {
  return typeof value === 'string' || value === null || Number.isFinite(value);
}

function sizeOf(rows: readonly unknown[]): number {
  let size = 0;
  for (const row of rows) {
    size += ofRow;
    for (const value of Object.values(Object(row))) {
      size += typeof value === 'string' ? value.length + 8 : 8;
    }
  }
  return size;
}
