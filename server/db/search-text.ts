import {
  sql,
  type Expression,
  type OrderByItemBuilder,
  type RawBuilder,
  type SqlBool,
} from 'kysely';

/** Whether a column holds `text` anywhere, whatever the case of its letters: of ASCII letters on SQLite, of all on PostgreSQL. */
export function holdsText(column: Expression<string>, text: string): RawBuilder<SqlBool> {
  const pattern = `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
  return sql<SqlBool>`lower(${column}) like lower(${pattern}) escape '\\'`;
}

/** A direction in which "never" comes before every time, on both databases. */
export function nullsSmallest(descending: boolean) {
  return (item: OrderByItemBuilder) =>
    descending ? item.desc().nullsLast() : item.asc().nullsFirst();
}
