import type { Kysely } from 'kysely';

import type { KeyDirectory, PlacedApiKey } from '#credentials/key-directory';
import { compiledQuery } from './compiled-query.ts';
import { isServerOf } from './is-server-of.ts';
import { readKey } from './key-store.ts';
import type { Schema } from './schema.ts';
import { holdsText } from './search-text.ts';

const sortColumns = {
  name: 'api_key.name',
  createdAt: 'api_key.created_at',
  lastUsedAt: 'api_key.last_used_at',
  expiresAt: 'api_key.expires_at',
} as const;

/** Keys, as their administrators see them, in SQL. */
export function keyDirectory(db: Kysely<Schema>): KeyDirectory {
  const keys = db
    .selectFrom('api_key')
    .innerJoin('organization', 'organization.id', 'api_key.organization_id')
    .leftJoin('mcp_server', 'mcp_server.id', 'api_key.server_id')
    .leftJoin('agent', 'agent.id', 'api_key.agent_id')
    .selectAll('api_key')
    .select([
      'organization.name as organization',
      'mcp_server.name as server',
      'agent.name as agent',
    ]);

  const ofIds = compiledQuery(db, (ids: readonly string[]) => keys.where('api_key.id', 'in', ids));

  return {
    async page(query) {
      const { organizationId, serverId, agentId, status, text, now } = query;
      const all = db
        .selectFrom('api_key')
        // Whose the owner is, is asked of the owner once: asked of each key, the index would not do.
        .$if(serverId !== undefined, (of) =>
          of
            .where('api_key.server_id', '=', serverId ?? '')
            .where((where) => isServerOf(where, serverId ?? '', organizationId)),
        )
        .$if(agentId !== undefined, (of) =>
          of.where('api_key.agent_id', '=', agentId ?? '').where((where) =>
            where.exists(
              where
                .selectFrom('agent')
                .select('agent.id')
                .where('agent.id', '=', agentId ?? '')
                .where('agent.organization_id', '=', organizationId),
            ),
          ),
        )
        .$if(serverId === undefined && agentId === undefined, (of) =>
          of
            .where('api_key.organization_id', '=', organizationId)
            .where('api_key.server_id', 'is not', null),
        )
        .$if(status === 'revoked', (of) => of.where('api_key.revoked_at', 'is not', null))
        .$if(status === 'active' || status === 'expired', (of) =>
          of.where('api_key.revoked_at', 'is', null),
        )
        .$if(status === 'expired', (of) => of.where('api_key.expires_at', '<=', now))
        .$if(status === 'active', (of) =>
          of.where((where) =>
            where.or([
              where('api_key.expires_at', 'is', null),
              where('api_key.expires_at', '>', now),
            ]),
          ),
        )
        .$if(text !== undefined, (of) =>
          of.where((where) => holdsText(where.ref('api_key.name'), text ?? '')),
        );
      const direction = query.descending ? 'desc' : 'asc';
      const ids = await all
        .select('api_key.id')
        .orderBy(sortColumns[query.sort], direction)
        .orderBy('api_key.id', direction)
        .limit(query.limit)
        .offset(query.offset)
        .execute();
      const { total } = await all
        .select(({ fn }) => fn.countAll<number | string>().as('total'))
        .executeTakeFirstOrThrow();
      if (ids.length === 0) return { items: [], total: Number(total) };
      const wanted = ids.map(({ id }) => id);
      const rows = await ofIds(wanted);
      const found = new Map(rows.map((row) => [row.id, placed(row)]));
      const items = wanted.flatMap((id) => found.get(id) ?? []);
      return { items, total: Number(total) };
    },

    async byId(id) {
      const row = await keys.where('api_key.id', '=', id).executeTakeFirst();
      return row && placed(row);
    },
  };
}

function placed(
  row: Parameters<typeof readKey>[0] & {
    organization: string;
    server: string | null;
    agent: string | null;
  },
): PlacedApiKey {
  const { organization, server, agent } = row;
  return {
    ...readKey(row),
    organization,
    server: server ?? undefined,
    agent: agent ?? undefined,
  };
}
