import type { Kysely } from 'kysely';

import type { AuthorizationCodeStore } from '#oauth/authorization-code-store';
import { readScopes } from './json-column.ts';
import type { Schema } from './schema.ts';

/** How long a code is known after its end, so that a late second use is still seen. */
const rememberedSeconds = 86_400;

/** Authorization codes in SQL. */
export function authorizationCodeStore(db: Kysely<Schema>): AuthorizationCodeStore {
  return {
    async add(code, now) {
      await db
        .insertInto('authorization_code')
        .values({
          hash: code.hash,
          grant_id: code.grantId,
          person_id: code.userId,
          client_id: code.clientId,
          server_id: code.serverId,
          scopes: JSON.stringify(code.scopes),
          redirect_uri: code.redirectUri,
          code_challenge: code.codeChallenge,
          expires_at: code.expiresAt,
          spent_at: null,
        })
        .execute();
      await db
        .deleteFrom('authorization_code')
        .where('expires_at', '<', now - rememberedSeconds)
        .execute();
    },

    async byHash(hash) {
      const row = await db
        .selectFrom('authorization_code')
        .innerJoin('mcp_server', 'mcp_server.id', 'authorization_code.server_id')
        .innerJoin('organization', 'organization.id', 'mcp_server.organization_id')
        .selectAll('authorization_code')
        .select(['organization.name as organization', 'mcp_server.name as server'])
        .where('hash', '=', hash)
        .where('organization.disabled_at', 'is', null)
        .where('mcp_server.disabled_at', 'is', null)
        .executeTakeFirst();
      return (
        row && {
          hash: row.hash,
          grantId: row.grant_id,
          userId: row.person_id,
          clientId: row.client_id,
          serverId: row.server_id,
          serverPath: `${row.organization}/${row.server}`,
          scopes: readScopes(row.scopes),
          redirectUri: row.redirect_uri,
          codeChallenge: row.code_challenge,
          expiresAt: row.expires_at,
          spentAt: row.spent_at ?? undefined,
        }
      );
    },

    async spend(hash, now) {
      await db
        .updateTable('authorization_code')
        .set({ spent_at: now })
        .where('hash', '=', hash)
        .where('spent_at', 'is', null)
        .execute();
    },
  };
}
