import { sql, type Kysely } from 'kysely';

import type { EndedRegistrationStore } from '#upstream-access/client-registration';
import type { Schema } from './schema.ts';
import { readAccess } from './upstream-access-store.ts';

/** No server asks by it, nobody's tokens are left to be revoked by that client, and no other access uses it. */
const isOver = sql<boolean>`not exists (
    select 1 from mcp_server s where s.upstream_access_id = upstream_access.id)
  and not exists (
    select 1 from upstream_connection c where c.access_id = upstream_access.id)
  and not exists (
    select 1 from upstream_access o where o.registration_url = upstream_access.registration_url
      and o.id <> upstream_access.id)`;

/** Registrations of accesses that are over, in SQL. One that another access took over is that one's. */
export function endedRegistrationStore(db: Kysely<Schema>): EndedRegistrationStore {
  return {
    async due(now, limit) {
      const rows = await db
        .selectFrom('upstream_access')
        .leftJoin('mcp_server as place', 'place.id', 'upstream_access.server_id')
        .leftJoin('organization', 'organization.id', 'place.organization_id')
        .selectAll('upstream_access')
        .select(['place.name as server_name', 'organization.name as organization_name'])
        .where('upstream_access.registration_url', 'is not', null)
        .where('upstream_access.next_attempt_at', '<=', now)
        .where(isOver)
        .limit(limit)
        .execute();
      return rows.flatMap((row) => {
        const access = readAccess(row);
        const { registration } = access;
        if (!registration) return [];
        const organization = row.organization_name ?? undefined;
        const server = row.server_name ?? row.server_id;
        return [{ access, registration, organization, server, attempts: row.attempts }];
      });
    },

    async postpone({ accessId, attempts }, next) {
      const { numUpdatedRows } = await db
        .updateTable('upstream_access')
        .set({ attempts: attempts + 1, next_attempt_at: next })
        .where('id', '=', accessId)
        .where('attempts', '=', attempts)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },

    async remove(accessId) {
      await db
        .updateTable('upstream_access')
        .set({ registration_url: null, sealed_registration_token: null })
        .where('id', '=', accessId)
        .execute();
    },
  };
}
