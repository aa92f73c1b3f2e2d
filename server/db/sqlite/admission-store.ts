import type { DatabaseSync } from 'node:sqlite';
import { admissionQueries, admissionStore, type AdmissionStore } from '#db/admissions';
import { cachedReads, changeTokenReader } from './cached-reads.ts';
import { lateStatement } from './late-statement.ts';

/**
 * Looks up admissions in SQLite. It uses prepared statements directly, because every MCP call needs an admission. Results are cached
 * until the database changes, which is checked at each lookup, so a revocation by any process takes effect on the next
 * request.
 */
export function sqliteAdmissions(connection: DatabaseSync): AdmissionStore {
  const statements = new Map(
    admissionQueries.map(({ name, sql }) => [name, lateStatement(connection, sql)]),
  );
  const cached = cachedReads(connection);
  return admissionStore((query, values, asOf) => {
    const key = `${query.name} ${query.parameters.map((name) => values[name] ?? '').join(' ')}`;
    const read = () => {
      const row = statements.get(query.name)?.().get(values);
      return row && query.read(row as never);
    };
    return cached(key, read, asOf);
  }, changeTokenReader(connection));
}
