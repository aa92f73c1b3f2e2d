import type { Input } from './read-options.ts';
import { UsageError } from './usage-error.ts';

/**
 * The PostgreSQL database that `--database-url` names; `undefined` for SQLite in the data folder.
 *
 * @throws {UsageError} when it is no such URL; the message does not contain the password
 */
export function databasePlace(input: Input): { readonly url: string } | undefined {
  const url = input.text('database-url');
  return url === undefined ? undefined : { url: checkDatabaseUrl(url, '--database-url') };
}

/** @throws {UsageError} naming the option, without the password */
export function checkDatabaseUrl(url: string, option: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !/^postgres(ql)?:$/.test(parsed.protocol) || parsed.pathname.length < 2) {
    throw new UsageError(
      `${option} is not the URL of a PostgreSQL database`,
      'write it as postgres://USER:PASSWORD@HOST:5432/DATABASE',
    );
  }
  return url;
}
