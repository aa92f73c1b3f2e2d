import type { Kysely } from 'kysely';

import type { AuthorizationRequest } from '#oauth/authorization-request';
import type { PendingRequestStore } from '#oauth/pending-request-store';
import { readScopes } from './json-column.ts';
import type { Schema } from './schema.ts';

/** Another site can open the consent page without end in somebody's browser; the latest questions count. */
const mostWaiting = 20;

/** Authorization requests that wait for a decision, in SQL. */
export function pendingRequestStore(db: Kysely<Schema>): PendingRequestStore {
  return {
    async add({ idHash, sessionId, userId, request, shown, expiresAt }, now) {
      await db.deleteFrom('authorization_request').where('expires_at', '<=', now).execute();
      await db
        .deleteFrom('authorization_request')
        .where('session_id', '=', sessionId)
        .where('id_hash', 'not in', (select) =>
          select
            .selectFrom('authorization_request')
            .select('id_hash')
            .where('session_id', '=', sessionId)
            .orderBy('expires_at', 'desc')
            .limit(mostWaiting - 1),
        )
        .execute();
      await db
        .insertInto('authorization_request')
        .values({
          id_hash: idHash,
          session_id: sessionId,
          person_id: userId,
          client_id: request.clientId,
          request: JSON.stringify(request),
          server_id: shown.serverId,
          scopes: JSON.stringify(shown.scopes),
          expires_at: expiresAt,
        })
        .execute();
    },

    async take(idHash, sessionId, now) {
      const row = await db
        .deleteFrom('authorization_request')
        .where('id_hash', '=', idHash)
        .where('session_id', '=', sessionId)
        .where('expires_at', '>', now)
        .returningAll()
        .executeTakeFirst();
      return (
        row && {
          idHash,
          sessionId,
          userId: row.person_id,
          request: JSON.parse(row.request) as AuthorizationRequest,
          shown: { serverId: row.server_id, scopes: readScopes(row.scopes) },
          expiresAt: row.expires_at,
        }
      );
    },
  };
}
