import type { DatabaseSync } from 'node:sqlite';
import type { Awaitable } from '#gateway/awaitable';

const maxCached = 10_000;

/**
 * Caches results until any process writes to the database. Checking for writes is cheaper than reading again, and once
 * per turn of the event loop is enough, because it happens after all questions of that turn. Inside a transaction of
 * this connection nothing is cached, because it may be rolled back. Absent results are not cached either, so that
 * requests for what does not exist cannot fill the memory.
 *
 * A caller that has already checked in this turn, after all its questions, passes the change token as `asOf` and gets
 * the result immediately.
 */
export function cachedReads(connection: DatabaseSync) {
  const written = onceATurn(sqliteWritten(connection));
  const cache = new Map<string, unknown>();
  let cachedAsOf = '';

  const cachedOrRead = <Answer extends object>(
    now: string,
    key: string,
    read: () => Answer | undefined,
  ): Answer | undefined => {
    if (connection.isTransaction) return read();
    if (now !== cachedAsOf || cache.size >= maxCached) {
      cache.clear();
      cachedAsOf = now;
    }
    const known = cache.get(key);
    // Values under the same key come from the same query.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    if (known !== undefined) return known as Answer;
    const answer = read();
    if (answer) cache.set(key, answer);
    return answer;
  };

  /** @param key contains everything that the result depends on */
  return <Answer extends object>(
    key: string,
    read: () => Answer | undefined,
    asOf?: string,
  ): Awaitable<Answer | undefined> =>
    asOf === undefined
      ? written().then((now) => cachedOrRead(now, key, read))
      : cachedOrRead(asOf, key, read);
}

/** Characters and values together, which is about the memory in bytes. */
const maxSize = 8_000_000;
const maxResultSize = 500_000;
const ofRow = 100;

/**
 * Caches the rows of queries until any process writes to the database. That is checked before each use, which costs a
 * fraction of reading the rows, so results are never outdated. Inside a transaction of this connection nothing is
 * cached, because it may be rolled back. The rows are frozen, because callers share them.
 */
export function cachedRows(connection: DatabaseSync) {
  const written = sqliteWritten(connection);
  const cache = new Map<string, Map<string, unknown[]>>();
  let asOf = '';
  let size = 0;

  /** @param sql a query that only reads, and whose result depends on the database alone */
  return (sql: string, parameters: readonly unknown[], read: () => unknown[]): unknown[] => {
    if (connection.isTransaction || !parameters.every(isUnambiguous)) return read();
    const now = written();
    if (now !== asOf || size > maxSize) {
      cache.clear();
      asOf = now;
      size = 0;
    }
    let answers = cache.get(sql);
    if (!answers) cache.set(sql, (answers = new Map<string, unknown[]>()));
    const key = JSON.stringify(parameters);
    const known = answers.get(key);
    if (known) return known;
    const rows = read();
    const own = key.length + ofRow + sizeOf(rows);
    if (own > maxResultSize) return rows;
    for (const row of Object.freeze(rows)) Object.freeze(row);
    answers.set(key, rows);
    size += own;
    return rows;
  };
}

/** Whether the JSON of a value differs from that of every other value. */
function isUnambiguous(value: unknown): boolean {
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

/**
 * Asks once for all callers of one turn of the event loop, after the last of them, so that no answer is older than
 * its question.
 */
function onceATurn<Answer>(ask: () => Answer): () => Promise<Answer> {
  let next: Promise<Answer> | undefined;
  return () => {
    next ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        next = undefined;
        try {
          resolve(ask());
        } catch (error) {
          reject(error);
        }
      });
    });
    return next;
  };
}

/**
 * Another text than before, once anything was written: `data_version` moves when another connection wrote,
 * `total_changes` when this one did.
 */
export function sqliteWritten(connection: DatabaseSync): () => string {
  const others = connection.prepare('pragma data_version');
  const own = connection.prepare('select total_changes() as count');
  return () => `${Number(others.get()?.['data_version'])}/${Number(own.get()?.['count'])}`;
}
