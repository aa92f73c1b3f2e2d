import { isScope, type Scope } from '#oauth/scopes';

/** A column that holds a JSON array of strings. */
export function readStrings(column: string): string[] {
  const value: unknown = JSON.parse(column);
  if (!Array.isArray(value) || !value.every((entry) => typeof entry === 'string')) {
    throw new TypeError('a list column holds something else than strings');
  }
  return value;
}

/** A column that holds scopes; one that this program does not know grants nothing. */
export function readScopes(column: string): Scope[] {
  return readStrings(column).filter(isScope);
}
