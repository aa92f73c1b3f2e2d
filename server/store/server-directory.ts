import { sql, type Kysely, type Updateable } from 'kysely';

import type { ServerChange, ServerDirectory } from '#organizations/server-directory';
import { readServer, upstreamColumns } from './organization-store.ts';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';
import { holdsText } from './search-text.ts';
import { renewWithheldTools } from './withheld-tools.ts';

const sortColumns = { name: 'mcp_server.name', createdAt: 'mcp_server.created_at' } as const;

/** Servers, as their administrators see them, in SQL. */
export function serverDirectory(db: Kysely<Schema>): ServerDirectory {
  return {
    async page({ organizationId, status, agentId, text, sort, descending, limit, offset }) {
      const all = db
        .selectFrom('mcp_server')
        .where('mcp_server.organization_id', '=', organizationId)
        .$if(status === 'enabled', (query) => query.where('mcp_server.disabled_at', 'is', null))
        .$if(status === 'disabled', (query) =>
          query.where('mcp_server.disabled_at', 'is not', null),
        )
        .$if(agentId !== undefined, (query) =>
          query.where('mcp_server.agent_id', '=', agentId ?? ''),
        )
        .$if(text !== undefined, (query) =>
          query.where((where) =>
            where.or([
              holdsText(where.ref('mcp_server.name'), text ?? ''),
              holdsText(where.ref('mcp_server.title'), text ?? ''),
            ]),
          ),
        );
      const direction = descending ? 'desc' : 'asc';
      const rows = await all
        .innerJoin('organization', 'organization.id', 'mcp_server.organization_id')
        .selectAll('mcp_server')
        .select('organization.name as organization')
        .orderBy(sortColumns[sort], direction)
        .orderBy('mcp_server.id', direction)
        .limit(limit)
        .offset(offset)
        .execute();
      const { total } = await all
        .select(({ fn }) => fn.countAll<number | string>().as('total'))
        .executeTakeFirstOrThrow();
      return { items: rows.map(readServer), total: Number(total) };
    },

    async update(serverId, change, revision) {
      const columns = changedColumns(change);
      const { upstream } = change;
      const url = upstream?.kind === 'http' ? upstream.url : '';
      const update = async (within: Kysely<Schema>) => {
        const { numUpdatedRows } = await within
          .updateTable('mcp_server')
          .set((column) => ({ ...columns, revision: column('revision', '+', 1) }))
          .$if(upstream !== undefined, (query) =>
            // Tokens were given for one URL: no other one ever gets them, nor is told who calls.
            query.set({
              upstream_access_id: sql`case when upstream_url = ${url} then upstream_access_id end`,
              upstream_tells_callers: sql`case when upstream_url = ${url} then upstream_tells_callers else 0 end`,
            }),
          )
          .where('id', '=', serverId)
          .$if(revision !== undefined, (query) => query.where('revision', '=', revision ?? 0))
          .executeTakeFirst();
        return numUpdatedRows === 1n;
      };
      if (!change.changedTools) return update(db);
      return inTransaction(db, async (transaction) => {
        const updated = await update(transaction);
        if (updated) await renewWithheldTools(transaction, serverId);
        return updated;
      });
    },

    async remove(serverId) {
      const { numDeletedRows } = await db
        .deleteFrom('mcp_server')
        .where('id', '=', serverId)
        .executeTakeFirst();
      return numDeletedRows === 1n;
    },

    async dependents(serverId, now) {
      const row = await db
        .selectNoFrom((select) => [
          select
            .selectFrom('api_key')
            .select(({ fn }) => fn.countAll<number | string>().as('n'))
            .where('server_id', '=', serverId)
            .where('revoked_at', 'is', null)
            .where((where) =>
              where.or([where('expires_at', 'is', null), where('expires_at', '>', now)]),
            )
            .as('keys'),
          select
            .selectFrom('oauth_client')
            .select(({ fn }) => fn.countAll<number | string>().as('n'))
            .where('server_id', '=', serverId)
            .where('revoked_at', 'is', null)
            .as('clients'),
          select
            .selectFrom('oauth_grant')
            .select(({ fn }) => fn.countAll<number | string>().as('n'))
            .where('server_id', '=', serverId)
            .where('revoked_at', 'is', null)
            .where('expires_at', '>', now)
            .as('grants'),
        ])
        .executeTakeFirstOrThrow();
      return {
        activeKeys: Number(row.keys),
        activeClients: Number(row.clients),
        activeGrants: Number(row.grants),
      };
    },
  };
}

function changedColumns(change: ServerChange): Updateable<Schema['mcp_server']> {
  const {
    title,
    description,
    instructions,
    hiddenTools,
    changedTools,
    limits,
    upstream,
    disabledAt,
  } = change;
  return {
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(instructions !== undefined && { instructions }),
    ...(hiddenTools && { hidden_tools: JSON.stringify(hiddenTools) }),
    ...(changedTools && { changed_tools: changedTools }),
    ...(limits !== undefined && { limits: limits && JSON.stringify(limits) }),
    ...(upstream && upstreamColumns(upstream)),
    ...(disabledAt !== undefined && { disabled_at: disabledAt }),
  };
}
