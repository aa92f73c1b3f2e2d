import type { Kysely } from 'kysely';

import type { AgentDirectory } from '#organizations/agent-directory';
import { agentsWithKeys, readAgent } from './agent-store.ts';
import type { Schema } from './schema.ts';
import { holdsText } from './search-text.ts';

const sortColumns = {
  name: 'agent.name',
  createdAt: 'agent.created_at',
  lastUsedAt: 'last_used_at',
} as const;

/** Agents, as their administrators see them, in SQL. */
export function agentDirectory(db: Kysely<Schema>): AgentDirectory {
  const agents = agentsWithKeys(db);
  return {
    async page({ organizationId, status, text, sort, descending, limit, offset }) {
      const all = agents
        .where('agent.organization_id', '=', organizationId)
        .$if(status === 'active', (query) => query.where('agent.revoked_at', 'is', null))
        .$if(status === 'revoked', (query) => query.where('agent.revoked_at', 'is not', null))
        .$if(text !== undefined, (query) =>
          query.where((where) => holdsText(where.ref('agent.name'), text ?? '')),
        );
      const direction = descending ? 'desc' : 'asc';
      const rows = await all
        .orderBy(sortColumns[sort], direction)
        .orderBy('agent.id', direction)
        .limit(limit)
        .offset(offset)
        .execute();
      const { total } = await all
        .clearSelect()
        .select(({ fn }) => fn.countAll<number | string>().as('total'))
        .executeTakeFirstOrThrow();
      return { items: rows.map(readAgent), total: Number(total) };
    },

    async names(ids) {
      if (ids.length === 0) return new Map();
      const rows = await db
        .selectFrom('agent')
        .select(['id', 'name'])
        .where('id', 'in', ids)
        .execute();
      return new Map(rows.map(({ id, name }) => [id, name]));
    },
  };
}
