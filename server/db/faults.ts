/** The meaning of a database error, the same for SQLite and PostgreSQL. */
export type DatabaseFault =
  /** A row with the same unique values exists. */
  | 'conflict'
  /** A row refers to one that does not exist, or cannot be deleted because others refer to it. */
  | 'referenced'
  /** The transaction conflicted with another one and was rolled back. It can be run again. */
  | 'retryable'
  /** Another process locked the database for longer than the timeout. */
  | 'busy'
  /** The database is unreachable or closes connections. */
  | 'unavailable'
  | 'full'
  | 'readonly'
  | 'other';

/** The database cannot be reached, or did not answer in time. */
export class DatabaseUnavailable extends Error {
  override readonly name: string = 'DatabaseUnavailable';
}

/** Classifies an error of the database; `undefined` for any other error. */
export function databaseFault(error: unknown): DatabaseFault | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error instanceof DatabaseUnavailable) return 'unavailable';
  const { code, errcode, severity, message }: Details = error;
  if (code === 'ERR_SQLITE_ERROR') return sqliteFault(errcode, message);
  if (typeof code === 'string' && typeof severity === 'string') return postgresFault(code);
  return brokenConnection.test(message) ? 'unavailable' : undefined;
}

interface Details {
  readonly code?: unknown;
  /** `node:sqlite`: the extended result code. */
  readonly errcode?: unknown;
  /** `pg`: set on errors that the database server reported. */
  readonly severity?: unknown;
  readonly message: string;
}

/** Messages of `pg` about connections, which have no code. */
const brokenConnection =
  /^(Connection terminated|Query read timeout$|Client has encountered a connection error|(read|write) (ECONNRESET|EPIPE|ETIMEDOUT)$)/;

/** https://sqlite.org/rescode.html */
function sqliteFault(errcode: unknown, message: string): DatabaseFault {
  const extended = typeof errcode === 'number' ? errcode : 0;
  switch (extended) {
    case 1555: // SQLITE_CONSTRAINT_PRIMARYKEY
    case 2067: // SQLITE_CONSTRAINT_UNIQUE
    case 2579: // SQLITE_CONSTRAINT_ROWID
      return 'conflict';
    case 787: // SQLITE_CONSTRAINT_FOREIGNKEY
      return 'referenced';
  }
  switch (extended & 0xff) {
    case 5: // SQLITE_BUSY: after the busy timeout
    case 6: // SQLITE_LOCKED
      return 'busy';
    case 10: // SQLITE_IOERR
    case 14: // SQLITE_CANTOPEN
      return 'unavailable';
    case 8: // SQLITE_READONLY
      return 'readonly';
    case 13: // SQLITE_FULL
      return 'full';
    case 19: // SQLITE_CONSTRAINT without an extended code, or with another one
      return message.startsWith('UNIQUE') ? 'conflict' : 'other';
    default:
      return 'other';
  }
}

/** https://www.postgresql.org/docs/15/errcodes-appendix.html */
function postgresFault(code: string): DatabaseFault {
  switch (code) {
    case '23505': // unique_violation
      return 'conflict';
    case '23503': // foreign_key_violation
      return 'referenced';
    case '40001': // serialization_failure
    case '40P01': // deadlock_detected
      return 'retryable';
    case '55P03': // lock_not_available
      return 'busy';
    case '53100': // disk_full
      return 'full';
    case '25006': // read_only_sql_transaction
      return 'readonly';
  }
  // Connection exceptions, insufficient resources, operator intervention.
  return /^(08|53|57)/.test(code) ? 'unavailable' : 'other';
}
