import type { Kysely, Selectable } from 'kysely';

import type { ApiKey, ApiKeyOwner, ApiKeyStore } from '#credentials/api-key';
import { readScopes } from './json-column.ts';
import type { Schema } from './schema.ts';

/** API keys in SQL. */
export function keyStore(db: Kysely<Schema>): ApiKeyStore {
  return {
    async add({ owner, ...key }) {
      await db
        .insertInto('api_key')
        .values({
          id: key.id,
          hash: key.hash,
          hint: key.hint,
          name: key.name,
          server_id: owner.type === 'server' ? owner.serverId : null,
          agent_id: owner.type === 'agent' ? owner.agentId : null,
          organization_id: (select) =>
            owner.type === 'server'
              ? select
                  .selectFrom('mcp_server')
                  .select('organization_id')
                  .where('id', '=', owner.serverId)
              : select
                  .selectFrom('agent')
                  .select('organization_id')
                  .where('id', '=', owner.agentId),
          scopes: JSON.stringify(key.scopes),
          created_at: key.createdAt,
          expires_at: key.expiresAt ?? null,
          last_used_at: null,
          revoked_at: null,
        })
        .execute();
    },

    async list(organization, server) {
      const rows = await db
        .selectFrom('api_key')
        .innerJoin('mcp_server', 'mcp_server.id', 'api_key.server_id')
        .innerJoin('organization', 'organization.id', 'mcp_server.organization_id')
        .selectAll('api_key')
        .where('organization.name', '=', organization)
        .$if(server !== undefined, (query) => query.where('mcp_server.name', '=', server ?? ''))
        .orderBy('api_key.created_at')
        .orderBy('api_key.id')
        .execute();
      return rows.map(readKey);
    },

    async revoke(id, now) {
      const { numUpdatedRows } = await db
        .updateTable('api_key')
        .set({ revoked_at: now })
        .where('id', '=', id)
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },
  };
}

export function readKey(row: Selectable<Schema['api_key']>): ApiKey {
  return {
    id: row.id,
    name: row.name,
    owner: readOwner(row),
    hint: row.hint,
    scopes: readScopes(row.scopes),
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  };
}

function readOwner(row: { server_id: string | null; agent_id: string | null }): ApiKeyOwner {
  if (row.server_id !== null) return { type: 'server', serverId: row.server_id };
  if (row.agent_id !== null) return { type: 'agent', agentId: row.agent_id };
  throw new TypeError('a key belongs to nobody');
}
