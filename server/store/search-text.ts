import { sql, type Expression, type RawBuilder, type SqlBool } from 'kysely';

/** Whether a column holds `text` anywhere, whatever the case of ASCII letters. */
export function holdsText(column: Expression<string>, text: string): RawBuilder<SqlBool> {
  const pattern = `%${text.toLowerCase().replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
  return sql<SqlBool>`lower(${column}) like ${pattern} escape '\\'`;
}
