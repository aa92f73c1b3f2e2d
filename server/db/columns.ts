// How values are read from columns, searched and ordered.

import {
  sql,
  type Expression,
  type OrderByItemBuilder,
  type RawBuilder,
  type SqlBool,
} from 'kysely';

import { isScope, type Scope } from '#model/scopes';

/** Reads a column that contains a JSON array of strings. @throws {TypeError} for any other JSON */
export function readStrings(column: string): string[] {
  const value: unknown = JSON.parse(column);
  if (!Array.isArray(value) || !value.every((entry) => typeof entry === 'string')) {
    throw new TypeError('a list column holds something else than strings');
  }
  return value;
}

/** Reads a column that contains scopes. A scope that this version does not know is ignored. */
export function readScopes(column: string): Scope[] {
  return readStrings(column).filter(isScope);
}

/** A condition that a column contains `text`. Ignores the case of letters: of ASCII letters on SQLite, of all on PostgreSQL. */
export function containsText(column: Expression<string>, text: string): RawBuilder<SqlBool> {
  const pattern = `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
  return sql<SqlBool>`lower(${column}) like lower(${pattern}) escape '\\'`;
}

/** A sort direction in which null ("never") is smaller than every time, on both databases. */
export function nullsSmallest(descending: boolean) {
  return (item: OrderByItemBuilder) =>
    descending ? item.desc().nullsLast() : item.asc().nullsFirst();
}

/** The person who answers for what an actor of the audit log creates; null if the actor is no person. */
export function ownerOf(createdBy: string | undefined): string | null {
  return createdBy?.startsWith('user:') ? createdBy.slice('user:'.length) : null;
}
