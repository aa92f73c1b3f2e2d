// Functions that read the values of columns, search in them and order by them.

import {
  sql,
  type Expression,
  type OrderByItemBuilder,
  type RawBuilder,
  type SelectQueryBuilder,
  type SqlBool,
} from 'kysely';

import { isScope, type Scope } from '#model/scopes';
import { readToolSelection, type ToolSelection } from '#model/tool-rights';

/** Reads a column that contains a JSON array of strings. @throws {TypeError} for any other JSON */
export function readStrings(column: string): readonly string[] {
  const value: unknown = JSON.parse(column);
  if (!Array.isArray(value) || !value.every((entry) => typeof entry === 'string')) {
    throw new TypeError('a list column holds something else than strings');
  }
  return value;
}

/** Reads a column that contains scopes. A scope that this version does not know is ignored. */
export function readScopes(column: string): readonly Scope[] {
  return readStrings(column).filter(isScope);
}

/** Reads a column with the selection of tools that a credential is limited to. Null: all tools. */
export function readSelection(column: string | null): ToolSelection {
  return column === null ? { type: 'all' } : readToolSelection(column);
}

/** The text of a selection for such a column. Equal selections have equal texts. */
export function selectionText(selection: ToolSelection = { type: 'all' }): string | null {
  if (selection.type === 'all') return null;
  if (selection.type === 'read-only') return JSON.stringify(selection);
  const { type, tools, prompts, resources } = selection;
  const [ofTools, ofPrompts, ofResources] = [tools, prompts, resources].map((names) =>
    [...new Set(names)].toSorted(),
  );
  return JSON.stringify({ type, tools: ofTools, prompts: ofPrompts, resources: ofResources });
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

/** The id of the person who owns what an actor of the audit log creates; null if the actor is not a person. */
export function ownerOf(createdBy: string | undefined): string | null {
  return createdBy?.startsWith('user:') ? createdBy.slice('user:'.length) : null;
}

/** How many rows a query finds. The query must not be ordered or limited yet. */
export async function countRows<Tables, Table extends keyof Tables>(
  found: Pick<SelectQueryBuilder<Tables, Table, unknown>, 'clearSelect'>,
): Promise<number> {
  const { count } = await found
    .clearSelect()
    .select(({ fn }) => fn.countAll<number | string>().as('count'))
    .$castTo<{ count: number | string }>()
    .executeTakeFirstOrThrow();
  return Number(count);
}
