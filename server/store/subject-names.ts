import type { Kysely } from 'kysely';

import type { SubjectNames } from '#usage/subject-names';
import type { Schema } from './schema.ts';

const tables = { server: 'mcp_server', client: 'oauth_client', key: 'api_key' } as const;

/** Names of what calls are counted for, in SQL. */
export function subjectNames(db: Kysely<Schema>): SubjectNames {
  return {
    async of(kind, ids) {
      if (kind === 'tool' || kind === 'method') return new Map(ids.map((name) => [name, name]));
      if (ids.length === 0) return new Map();
      const rows = await (kind === 'person'
        ? db.selectFrom('person').select(['id', 'email as name']).where('id', 'in', ids).execute()
        : db.selectFrom(tables[kind]).select(['id', 'name']).where('id', 'in', ids).execute());
      return new Map(rows.map(({ id, name }) => [id, name]));
    },
  };
}
