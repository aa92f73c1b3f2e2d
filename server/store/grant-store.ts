import type { Kysely, Selectable } from 'kysely';

import type { GrantStore, NamedGrant } from '#oauth/grant-store';
import { inTransaction } from './in-transaction.ts';
import { readScopes } from './json-column.ts';
import type { Schema } from './schema.ts';

/** Grants in SQL. */
export function grantStore(db: Kysely<Schema>): GrantStore {
  return {
    begin(codeHash, grant, refreshToken) {
      return inTransaction(db, async (transaction) => {
        const { numUpdatedRows } = await transaction
          .updateTable('authorization_code')
          .set({ spent_at: grant.createdAt })
          .where('hash', '=', codeHash)
          .where('spent_at', 'is', null)
          .executeTakeFirst();
        if (numUpdatedRows !== 1n) return false;
        await transaction
          .insertInto('oauth_grant')
          .values({
            id: grant.id,
            person_id: grant.userId,
            client_id: grant.clientId,
            server_id: grant.serverId,
            scopes: JSON.stringify(grant.scopes),
            redirect_host: grant.redirectHost,
            authenticated: grant.authenticated ? 1 : 0,
            created_at: grant.createdAt,
            expires_at: grant.expiresAt,
            last_used_at: null,
            revoked_at: null,
          })
          .execute();
        await transaction
          .insertInto('refresh_token')
          .values({
            hash: refreshToken.hash,
            grant_id: grant.id,
            expires_at: refreshToken.expiresAt,
            spent_at: null,
            successor_hash: null,
            sealed_successor: null,
          })
          .execute();
        await transaction
          .deleteFrom('oauth_grant')
          .where('expires_at', '<', grant.createdAt)
          .execute();
        return true;
      });
    },

    async byId(id) {
      const row = await namedGrants(db).where('oauth_grant.id', '=', id).executeTakeFirst();
      return row && readGrant(row);
    },

    async list(userId, now) {
      const rows = await namedGrants(db)
        .where('oauth_grant.person_id', '=', userId)
        .where('oauth_grant.revoked_at', 'is', null)
        .where('oauth_grant.expires_at', '>', now)
        .where('oauth_client.revoked_at', 'is', null)
        .orderBy('oauth_grant.created_at', 'desc')
        .orderBy('oauth_grant.id')
        .execute();
      return rows.map(readGrant);
    },

    async revoke(id, now) {
      const { numUpdatedRows } = await db
        .updateTable('oauth_grant')
        .set({ revoked_at: now })
        .where('id', '=', id)
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },

    async revokeAll(userId, now) {
      await inTransaction(db, async (transaction) => {
        await transaction
          .updateTable('oauth_grant')
          .set({ revoked_at: now })
          .where('person_id', '=', userId)
          .where('revoked_at', 'is', null)
          .execute();
        for (const table of ['authorization_code', 'authorization_request', 'consent'] as const) {
          await transaction.deleteFrom(table).where('person_id', '=', userId).execute();
        }
      });
    },
  };
}

/** Grants with the names of their client, server and organization. */
export function namedGrants(db: Kysely<Schema>) {
  return db
    .selectFrom('oauth_grant')
    .innerJoin('oauth_client', 'oauth_client.id', 'oauth_grant.client_id')
    .innerJoin('mcp_server', 'mcp_server.id', 'oauth_grant.server_id')
    .innerJoin('organization', 'organization.id', 'mcp_server.organization_id')
    .selectAll('oauth_grant')
    .select([
      'oauth_client.name as client_name',
      'organization.name as organization',
      'mcp_server.name as server',
    ]);
}

type GrantRow = Selectable<Schema['oauth_grant']> & {
  client_name: string;
  organization: string;
  server: string;
};

export function readGrant(row: GrantRow): NamedGrant {
  return {
    id: row.id,
    userId: row.person_id,
    clientId: row.client_id,
    clientName: row.client_name,
    serverId: row.server_id,
    serverPath: `${row.organization}/${row.server}`,
    scopes: readScopes(row.scopes),
    redirectHost: row.redirect_host,
    authenticated: row.authenticated === 1,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  };
}
