import type { Kysely } from 'kysely';

import type { ClientDirectory } from '#credentials/client-directory';
import { readClient } from './client-store.ts';
import { isServerOf } from './is-server-of.ts';
import type { Schema } from './schema.ts';
import { holdsText } from './search-text.ts';

const sortColumns = {
  name: 'oauth_client.name',
  createdAt: 'oauth_client.created_at',
  lastUsedAt: 'oauth_client.last_used_at',
} as const;

/** OAuth clients, as their administrators see them, in SQL. */
export function clientDirectory(db: Kysely<Schema>): ClientDirectory {
  return {
    async page(query) {
      const { organizationId, serverId, status, text } = query;
      const all = db
        .selectFrom('oauth_client')
        .$if(serverId === undefined, (of) =>
          of.where('oauth_client.organization_id', '=', organizationId),
        )
        .$if(serverId !== undefined, (of) =>
          of
            .where('oauth_client.server_id', '=', serverId ?? '')
            .where((where) => isServerOf(where, serverId ?? '', organizationId)),
        )
        .$if(status === 'active', (of) => of.where('oauth_client.revoked_at', 'is', null))
        .$if(status === 'revoked', (of) => of.where('oauth_client.revoked_at', 'is not', null))
        .$if(text !== undefined, (of) =>
          of.where((where) => holdsText(where.ref('oauth_client.name'), text ?? '')),
        );
      const direction = query.descending ? 'desc' : 'asc';
      const rows = await all
        .innerJoin('mcp_server', 'mcp_server.id', 'oauth_client.server_id')
        .innerJoin('organization', 'organization.id', 'mcp_server.organization_id')
        .selectAll('oauth_client')
        .select(['organization.name as organization', 'mcp_server.name as server'])
        .select((select) =>
          select
            .selectFrom('client_secret')
            .select('client_secret.hint')
            .whereRef('client_secret.client_id', '=', 'oauth_client.id')
            .orderBy('client_secret.created_at', 'desc')
            .limit(1)
            .as('secret_hint'),
        )
        .orderBy(sortColumns[query.sort], direction)
        .orderBy('oauth_client.id', direction)
        .limit(query.limit)
        .offset(query.offset)
        .execute();
      const { total } = await all
        .select(({ fn }) => fn.countAll<number | string>().as('total'))
        .executeTakeFirstOrThrow();
      const items = rows.map((row) =>
        Object.assign(readClient(row), { secretHint: row.secret_hint ?? undefined }),
      );
      return { items, total: Number(total) };
    },

    async update(id, { name, scopes, redirectUris, jwks }) {
      const { numUpdatedRows } = await db
        .updateTable('oauth_client')
        .set({
          id,
          ...(name !== undefined && { name }),
          ...(scopes && { scopes: JSON.stringify(scopes) }),
          ...(redirectUris && { redirect_uris: JSON.stringify(redirectUris) }),
          ...(jwks !== undefined && { jwks }),
        })
        .where('id', '=', id)
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },
  };
}
