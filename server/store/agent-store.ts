import type { Kysely } from 'kysely';

import type { Agent, AgentStore } from '#organizations/agent-store';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** Agents in SQL. An agent was last used when one of its keys was. */
export function agentStore(db: Kysely<Schema>): AgentStore {
  const agents = agentsWithKeys(db);

  return {
    async add({ id, organizationId, name, createdAt }) {
      const { numInsertedOrUpdatedRows } = await db
        .insertInto('agent')
        .values({
          id,
          organization_id: organizationId,
          name,
          created_at: createdAt,
          revoked_at: null,
        })
        .onConflict((conflict) => conflict.columns(['organization_id', 'name']).doNothing())
        .executeTakeFirst();
      return numInsertedOrUpdatedRows === 1n;
    },

    async byName(organization, name) {
      const row = await agents
        .where('organization.name', '=', organization)
        .where('agent.name', '=', name)
        .executeTakeFirst();
      return row && readAgent(row);
    },

    async byId(id) {
      const row = await agents
        .select('organization.name as organization')
        .where('agent.id', '=', id)
        .executeTakeFirst();
      return row && { ...readAgent(row), organization: row.organization };
    },

    async revoke(id, now) {
      return inTransaction(db, async (transaction) => {
        const { numUpdatedRows } = await transaction
          .updateTable('agent')
          .set({ revoked_at: now })
          .where('id', '=', id)
          .where('revoked_at', 'is', null)
          .executeTakeFirst();
        await transaction
          .updateTable('api_key')
          .set({ revoked_at: now })
          .where('agent_id', '=', id)
          .where('revoked_at', 'is', null)
          .execute();
        return numUpdatedRows === 1n;
      });
    },
  };
}

/** Agents, each with what its keys say of it. */
export function agentsWithKeys(db: Kysely<Schema>) {
  return db
    .selectFrom('agent')
    .innerJoin('organization', 'organization.id', 'agent.organization_id')
    .selectAll('agent')
    .select((select) =>
      select
        .selectFrom('api_key')
        .select(({ fn }) => fn.max('api_key.last_used_at').as('at'))
        .whereRef('api_key.agent_id', '=', 'agent.id')
        .as('last_used_at'),
    )
    .select((select) =>
      select
        .selectFrom('api_key')
        .select('api_key.hint')
        .whereRef('api_key.agent_id', '=', 'agent.id')
        .orderBy('api_key.created_at', 'desc')
        .limit(1)
        .as('key_hint'),
    );
}

export function readAgent(row: {
  id: string;
  organization_id: string;
  name: string;
  created_at: number;
  last_used_at: number | null;
  key_hint: string | null;
  revoked_at: number | null;
}): Agent {
  return {
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    keyHint: row.key_hint ?? undefined,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  };
}
