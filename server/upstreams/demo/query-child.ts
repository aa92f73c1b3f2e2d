// The code that runs in the child of `query-process.ts`: `superviseQueries` on the main thread of the process,
// `answerQueries` in a worker. Both run as their own source text, so they refer to nothing outside
// themselves but their arguments.
import type * as sqlite from 'node:sqlite';
import type * as workerThreads from 'node:worker_threads';
import { z } from 'zod';

export interface Query {
  sql: string;
  maxRows: number;
}

export const queryValue = z.union([z.string(), z.number(), z.null()]);

export type QueryValue = z.infer<typeof queryValue>;

/** The child runs SQL of callers, so its answers are validated like any other untrusted input. */
export const queryAnswer = z.discriminatedUnion('outcome', [
  z.object({
    outcome: z.literal('rows'),
    columns: z.array(z.string()),
    rows: z.array(z.array(queryValue)),
    /** Whether there were more rows. */
    truncated: z.boolean(),
  }),
  z.object({ outcome: z.literal('refused'), reason: z.string() }),
]);

export type QueryAnswer = z.infer<typeof queryAnswer>;

/**
 * Answers SELECT statements of callers, one after the other, over a port. A read-only connection is
 * not enough: VACUUM INTO writes any file and ATTACH reads any database. So the authorizer, where Node
 * has one, allows nothing but reading; the statement must begin as one that reads; and it must be the
 * whole text, because `prepare` ignores a second statement silently.
 *
 * https://sqlite.org/security.html; https://sqlite.org/c3ref/set_authorizer.html
 */
export function answerQueries(
  port: workerThreads.MessagePort,
  { DatabaseSync, constants }: typeof sqlite,
  file: string,
  maxAnswerBytes: number,
): void {
  const blanks = String.raw`(?:\s|--[^\n]*(?:\n|$)|/\*(?:[^*]|\*(?!/))*\*/)*`;
  const reads = new RegExp(`^${blanks}(?:select|with|values)\\b`, 'i');
  const onlyBlanks = new RegExp(`^${blanks}$`);
  const maxValueBytes = 1_000_000;

  const database = new DatabaseSync(file, {
    readOnly: true,
    // Older Node versions ignore `limits`; there only the limit on memory applies.
    limits: { length: maxValueBytes, sqlLength: 100_000 },
  });
  // Otherwise, sorting would spill to files, whose size nothing limits.
  database.exec('pragma temp_store = memory');
  const authorizes = 'setAuthorizer' in database;
  if (authorizes) {
    const allowed = new Set([
      constants.SQLITE_SELECT,
      constants.SQLITE_READ,
      constants.SQLITE_FUNCTION,
      constants.SQLITE_RECURSIVE,
    ]);
    database.setAuthorizer((action) =>
      allowed.has(action) ? constants.SQLITE_OK : constants.SQLITE_DENY,
    );
  }

  const refused = (why: string): QueryAnswer => ({ outcome: 'refused', reason: why });

  function plain(value: unknown): QueryValue {
    if (typeof value === 'bigint')
      return BigInt(Number(value)) === value && Number.isSafeInteger(Number(value))
        ? Number(value)
        : String(value);
    if (value instanceof Uint8Array) {
      const hex = Buffer.from(value.subarray(0, 32)).toString('hex');
      return value.length > 32 ? `x'${hex}…' (${value.length} bytes)` : `x'${hex}'`;
    }
    if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
    return typeof value === 'string' ? value : null;
  }

  function answer({ sql, maxRows }: Query): QueryAnswer {
    if (!reads.test(sql) || (!authorizes && /pragma_/i.test(sql)))
      return refused('only a SELECT, WITH … SELECT or VALUES is run: the database is read-only');
    const statement = database.prepare(sql);
    const { sourceSQL } = statement;
    if (!sql.startsWith(sourceSQL) || !onlyBlanks.test(sql.slice(sourceSQL.length)))
      return refused('one statement at a time: send the others in calls of their own');
    statement.setReadBigInts(true);
    statement.setReturnArrays(true);
    const columns = statement.columns().map(({ name }) => name);
    const rows: QueryValue[][] = [];
    let bytes = columns.join('').length;
    for (const row of statement.iterate()) {
      if (rows.length === maxRows) return { outcome: 'rows', columns, rows, truncated: true };
      const values = Object.values(row).map(plain);
      for (const value of values) bytes += typeof value === 'string' ? value.length + 8 : 8;
      if (bytes > maxAnswerBytes)
        return refused(
          `the answer is larger than ${maxAnswerBytes} bytes: select fewer columns or rows, or shorten long values with substr()`,
        );
      rows.push(values);
    }
    return { outcome: 'rows', columns, rows, truncated: false };
  }

  function reason(error: unknown): string {
    if (!(error instanceof Error)) throw error;
    const { message } = error;
    const errcode = 'errcode' in error ? error.errcode : undefined;
    if (errcode === 23 || /read-?only database|not authorized/.test(message))
      return 'only reading is allowed: the database is read-only, and PRAGMA, ATTACH and VACUUM are not run';
    if (errcode === 18)
      return `a value is larger than ${maxValueBytes} bytes: shorten it with substr(), or aggregate less`;
    return `${message}: check table and column names with list_tables and describe_table`;
  }

  port.postMessage('ready');
  port.on('message', (query: Query) => {
    try {
      port.postMessage(answer(query));
    } catch (error) {
      port.postMessage(refused(reason(error)));
    }
  });
}

/**
 * Runs a worker in this process, passes messages between it and the parent process, and kills the
 * process as soon as either of them ends, or when it takes too much memory: an endless query stops in
 * no other way. Node's SQLite is built without memory accounting, so its own heap limits do nothing.
 */
export function superviseQueries(
  host: NodeJS.Process,
  { Worker }: typeof workerThreads,
  source: string,
  maxMemoryBytes: number,
): void {
  const worker = new Worker(source, {
    eval: true,
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16 },
  });
  const end = () => host.kill(host.pid, 'SIGKILL');
  let watch: NodeJS.Timeout | undefined;

  host.on('message', (message) => {
    watch = setInterval(() => {
      if (host.memoryUsage.rss() > maxMemoryBytes) end();
    }, 20);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- not a window
    worker.postMessage(message);
  });
  worker.on('message', (message) => {
    clearInterval(watch);
    host.send?.(message);
  });
  host.on('disconnect', end);
  worker.on('error', end);
  worker.on('exit', end);
}
