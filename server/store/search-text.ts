import { sql, type Expression, type RawBuilder, type SqlBool } from 'kysely';

/** Whether a column holds `text` anywhere, whatever the case of ASCII letters, as SQLite's `like` has it. */
export function holdsText(column: Expression<string>, text: string): RawBuilder<SqlBool> {
  const pattern = `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
  return sql<SqlBool>`${column} like ${pattern} escape '\\'`;
}
