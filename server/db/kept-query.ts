import { type RawBuilder, sql } from 'kysely';

import type { Awaitable } from '#model/awaitable';

/**
 * A query with named parameters, whose row is kept until the data that it is read from changes. Its SQL text is the same for SQLite and
 * PostgreSQL.
 */
export interface KeptQuery<Answer extends object, Row> {
  readonly name: string;
  readonly sql: string;
  /** The names of its parameters. */
  readonly parameters: readonly string[];
  /** Makes the answer from a row; `undefined` if the row is to be treated as missing. */
  readonly read: (row: Row) => Answer | undefined;
}

export type KeptValues = Readonly<Record<string, string | null>>;

/** Reads the row of a query as it is now, not as it was before the call, or as of the change token `asOf` if given. */
export type ReadKept = <Answer extends object, Row>(
  query: KeptQuery<Answer, Row>,
  values: KeptValues,
  asOf?: string,
) => Awaitable<Answer | undefined>;

/** A query with values for its named parameters. */
export function withValues<Row>(
  { sql: text }: KeptQuery<object, Row>,
  values: KeptValues,
): RawBuilder<Row> {
  const parts = text
    .split(/:(\w+)/)
    .map((part, at) => (at % 2 === 0 ? sql.raw(part) : sql.val(values[part] ?? null)));
  return sql<Row>`${sql.join(parts, sql.raw(''))}`;
}
