import type { DatabaseSync } from 'node:sqlite';
import type { Schema } from '#db/schema';
import type { Awaitable } from '#model/awaitable';

const maxCached = 10_000;

/**
 * Caches results until any process writes to the database. Checking for writes is cheaper than reading again, and once
 * per turn of the event loop is enough, because it happens after all reads of that turn were requested. Inside a
 * transaction of this connection nothing is cached, because it may be rolled back. Absent results are not cached either,
 * so that requests for what does not exist cannot fill the memory.
 *
 * A caller that has read the change token in this turn, after all its requests arrived, passes it as `asOf` and gets the
 * result immediately.
 */
export function cachedReads(connection: DatabaseSync) {
  const readChangeToken = oncePerTurn(changeTokenReader(connection));
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
      ? readChangeToken().then((now) => cachedOrRead(now, key, read))
      : cachedOrRead(asOf, key, read);
}

/** Limits of the cache: characters plus a constant for each value and row, which is about the memory in bytes. */
const maxSize = 8_000_000;
const maxResultSize = 500_000;
const rowSize = 100;

/**
 * Caches the rows of queries until any process writes to the database. That is checked before each use, which costs a
 * fraction of reading the rows, so results are never outdated. Inside a transaction of this connection nothing is
 * cached, because it may be rolled back. The rows are frozen, because callers share them.
 *
 * @param readChangeToken default: reads it from the database at each call
 */
export function cachedRows(
  connection: DatabaseSync,
  readChangeToken = changeTokenReader(connection),
) {
  const cache = new Map<string, Map<string, unknown[]>>();
  let asOf = '';
  let size = 0;

  /** @param sql a query that only reads and whose result depends only on the database */
  return (sql: string, parameters: readonly unknown[], read: () => unknown[]): unknown[] => {
    if (connection.isTransaction || !parameters.every(isUnambiguous)) return read();
    const now = readChangeToken();
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
    const resultSize = key.length + rowSize + sizeOf(rows);
    if (resultSize > maxResultSize) return rows;
    for (const row of Object.freeze(rows)) Object.freeze(row);
    answers.set(key, rows);
    size += resultSize;
    return rows;
  };
}

/** Whether no other value has the same JSON. */
function isUnambiguous(value: unknown): boolean {
  return typeof value === 'string' || value === null || Number.isFinite(value);
}

function sizeOf(rows: readonly unknown[]): number {
  let size = 0;
  for (const row of rows) {
    size += rowSize;
    for (const value of Object.values(Object(row))) {
      size += typeof value === 'string' ? value.length + 8 : 8;
    }
  }
  return size;
}

/**
 * Calls `read` once for all callers of one turn of the event loop, after the last of them, so that no result is older
 * than its request.
 */
function oncePerTurn<Answer>(read: () => Answer): () => Promise<Answer> {
  let next: Promise<Answer> | undefined;
  return () => {
    next ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        next = undefined;
        try {
          resolve(read());
        } catch (error) {
          reject(error);
        }
      });
    });
    return next;
  };
}

/** The change token, read once for everything that `together` calls, at its first use. */
export function sharedChangeToken(connection: DatabaseSync) {
  const read = changeTokenReader(connection);
  let isShared = false;
  let shared: string | undefined;
  return {
    changeToken(): string {
      if (!isShared) return read();
      shared ??= read();
      return shared;
    },

    /** Calls `act`, which must not write: its reads would miss the change. */
    together(act: () => void): void {
      isShared = true;
      try {
        act();
      } finally {
        isShared = false;
        shared = undefined;
      }
    },
  };
}

/**
 * Returns a function that reads the change token of the database. The token differs after every write: `data_version`
 * changes when another connection writes, `total_changes` when this one does. Rows of `uncachedTables` that this connection writes do
 * not change it, because a server writes them all the time, and nothing that is cached depends on them.
 */
export function changeTokenReader(connection: DatabaseSync): () => string {
  const uncached = uncachedRowsOf(connection);
  return tokenReader(connection, () => uncached.written);
}

/** Like `changeTokenReader`, but the token also changes with rows of `uncachedTables`. */
export function wholeChangeTokenReader(connection: DatabaseSync): () => string {
  return tokenReader(connection, () => 0);
}

function tokenReader(connection: DatabaseSync, ignored: () => number): () => string {
  const others = connection.prepare('pragma data_version');
  const own = connection.prepare('select total_changes() as count');
  return () =>
    `${Number(others.get()?.['data_version'])}/${Number(own.get()?.['count']) - ignored()}`;
}

/** The tables of recorded calls, and of used values that work only once. */
const uncachedTables = [
  'call_record',
  'call_quarter',
  'call_subject',
  'spent_challenge',
  'used_assertion',
] as const satisfies readonly (keyof Schema)[];
const uncachedTable = new RegExp(String.raw`\b(?:${uncachedTables.join('|')})\b`);
const uncachedWrite = new RegExp(
  String.raw`^\s*(?:insert into|update|delete from) "?(?:${uncachedTables.join('|')})\b`,
  'i',
);

interface UncachedRows {
  /** How many rows of `uncachedTables` a connection has inserted, changed or deleted, as `total_changes` counts them. */
  written: number;
}

const uncachedRows = new WeakMap<DatabaseSync, UncachedRows>();

/** Code that executes a statement for which `writesOnlyUncached` holds adds the number of rows that it changed. */
export function uncachedRowsOf(connection: DatabaseSync): UncachedRows {
  const known = uncachedRows.get(connection) ?? { written: 0 };
  uncachedRows.set(connection, known);
  return known;
}

/** Whether the rows of a statement may be cached: it reads none of `uncachedTables`, which do not change the change token. */
export function isCacheable(sql: string): boolean {
  return !uncachedTable.test(sql);
}

/** Whether a statement writes one of `uncachedTables` and nothing else. */
export function writesOnlyUncached(sql: string): boolean {
  return uncachedWrite.test(sql);
}
