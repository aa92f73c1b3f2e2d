import type { Kysely } from 'kysely';

import { ordinaryScopes } from '#credentials/scope';
import type { ClientDocumentStore } from '#oauth/client-document-store';
import { readClient } from './client-store.ts';
import { forgetIdleClients } from './forget-idle-clients.ts';
import type { Schema } from './schema.ts';

/** What client metadata documents said, in SQL: OAuth clients that belong to no server. */
export function clientDocumentStore(db: Kysely<Schema>): ClientDocumentStore {
  return {
    async byUrl(url) {
      const row = await db
        .selectFrom('oauth_client')
        .selectAll()
        .where('id', '=', url)
        .where('fetched_at', 'is not', null)
        .executeTakeFirst();
      if (!row) return undefined;
      const client = readClient({ ...row, organization: null, server: null });
      return { client, fetchedAt: row.fetched_at ?? 0 };
    },

    async put({ id, name, redirectUris, jwks }, fetchedAt) {
      const said = {
        name,
        redirect_uris: JSON.stringify(redirectUris),
        jwks: jwks ?? null,
        fetched_at: fetchedAt,
      };
      await db
        .insertInto('oauth_client')
        .values({
          id,
          server_id: null,
          organization_id: null,
          scopes: JSON.stringify(ordinaryScopes),
          created_at: fetchedAt,
          last_used_at: null,
          revoked_at: null,
          ...said,
        })
        .onConflict((conflict) => conflict.column('id').doUpdateSet(said))
        .execute();
      await forgetIdleClients(db, fetchedAt);
    },
  };
}
