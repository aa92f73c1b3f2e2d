import type { Kysely } from 'kysely';

import type { SubjectNames } from '#usage/subject-names';
import { compiledQuery } from './compiled-query.ts';
import type { Schema } from './schema.ts';

/** Names of what calls are counted for, in SQL. */
export function subjectNames(db: Kysely<Schema>): SubjectNames {
  const named = (table: 'mcp_server' | 'oauth_client' | 'api_key') =>
    compiledQuery(db, (ids: readonly string[]) =>
      db.selectFrom(table).select(['id', 'name']).where('id', 'in', ids),
    );
  const namesOf = {
    server: named('mcp_server'),
    client: named('oauth_client'),
    key: named('api_key'),
    person: compiledQuery(db, (ids: readonly string[]) =>
      db.selectFrom('person').select(['id', 'email as name']).where('id', 'in', ids),
    ),
  };

  return {
    async of(kind, ids) {
      if (kind === 'tool' || kind === 'method') return new Map(ids.map((name) => [name, name]));
      if (ids.length === 0) return new Map();
      const rows = await namesOf[kind](ids);
      return new Map(rows.map(({ id, name }) => [id, name]));
    },
  };
}
