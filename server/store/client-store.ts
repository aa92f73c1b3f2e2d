import type { Kysely, Selectable } from 'kysely';

import type { OAuthClient, OAuthClientStore } from '#credentials/oauth-client';
import { forgetIdleClients } from './forget-idle-clients.ts';
import { inTransaction } from './in-transaction.ts';
import { readScopes, readStrings } from './json-column.ts';
import type { Schema } from './schema.ts';

/** A secret's use is written down when the last one is at least this old. */
const noteSeconds = 60;

/** What a secret is called in lists: a quarter of its hash, which leads nowhere. */
export function secretId(hash: string): string {
  return `cs_${hash.slice(0, 16)}`;
}

/** OAuth clients in SQL. */
export function clientStore(db: Kysely<Schema>): OAuthClientStore {
  const clients = db
    .selectFrom('oauth_client')
    .leftJoin('mcp_server', 'mcp_server.id', 'oauth_client.server_id')
    .leftJoin('organization', 'organization.id', 'mcp_server.organization_id')
    .selectAll('oauth_client')
    .select(['organization.name as organization', 'mcp_server.name as server']);

  return {
    async add({ secretHash, secretHint, ...client }) {
      await inTransaction(db, async (transaction) => {
        if (client.serverId === undefined) await forgetIdleClients(transaction, client.createdAt);
        await transaction
          .insertInto('oauth_client')
          .values({
            id: client.id,
            server_id: client.serverId ?? null,
            organization_id: (select) =>
              select
                .selectFrom('mcp_server')
                .select('organization_id')
                .where('id', '=', client.serverId ?? null),
            name: client.name,
            scopes: JSON.stringify(client.scopes),
            redirect_uris: JSON.stringify(client.redirectUris),
            jwks: client.jwks ?? null,
            authentication_required: client.authenticationRequired ? 1 : 0,
            fetched_at: null,
            created_at: client.createdAt,
            last_used_at: null,
            revoked_at: null,
          })
          .execute();
        if (secretHash === undefined) return;
        await transaction
          .insertInto('client_secret')
          .values({
            hash: secretHash,
            id: secretId(secretHash),
            client_id: client.id,
            hint: secretHint ?? '',
            created_at: client.createdAt,
            expires_at: null,
            last_used_at: null,
            revoked_at: null,
          })
          .execute();
      });
    },

    async byId(id) {
      const row = await clients.where('oauth_client.id', '=', id).executeTakeFirst();
      return row && readClient(row);
    },

    async hasSecret(clientId, hash, now) {
      const row = await db
        .selectFrom('client_secret')
        .select(['client_id', 'last_used_at'])
        .where('hash', '=', hash)
        .where((where) =>
          where.or([where('revoked_at', 'is', null), where('revoked_at', '>', now)]),
        )
        .where((where) =>
          where.or([where('expires_at', 'is', null), where('expires_at', '>', now)]),
        )
        .executeTakeFirst();
      if (row?.client_id !== clientId) return false;
      if (row.last_used_at === null || now - row.last_used_at >= noteSeconds) {
        await db
          .updateTable('client_secret')
          .set({ last_used_at: now })
          .where('hash', '=', hash)
          .execute();
      }
      return true;
    },

    async list(organization, server) {
      const rows = await clients
        .select((select) =>
          select
            .selectFrom('client_secret')
            .select('client_secret.hint')
            .whereRef('client_secret.client_id', '=', 'oauth_client.id')
            .orderBy('client_secret.created_at', 'desc')
            .limit(1)
            .as('secret_hint'),
        )
        .where('organization.name', '=', organization)
        .$if(server !== undefined, (query) => query.where('mcp_server.name', '=', server ?? ''))
        .orderBy('oauth_client.created_at')
        .orderBy('oauth_client.id')
        .execute();
      return rows.map((row) =>
        Object.assign(readClient(row), { secretHint: row.secret_hint ?? undefined }),
      );
    },

    async revoke(id, now) {
      const { numUpdatedRows } = await db
        .updateTable('oauth_client')
        .set({ revoked_at: now })
        .where('id', '=', id)
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },
  };
}

type ClientRow = Selectable<Schema['oauth_client']> & {
  organization: string | null;
  server: string | null;
};

export function readClient(row: ClientRow): OAuthClient {
  return {
    id: row.id,
    name: row.name,
    serverId: row.server_id ?? undefined,
    serverPath: row.server_id === null ? undefined : `${row.organization}/${row.server}`,
    scopes: readScopes(row.scopes),
    redirectUris: readStrings(row.redirect_uris),
    jwks: row.jwks ?? undefined,
    authenticationRequired: row.jwks !== null || row.authentication_required === 1,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  };
}
