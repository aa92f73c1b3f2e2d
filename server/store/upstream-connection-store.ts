import { sql, type Kysely, type Selectable } from 'kysely';

import type {
  EndedConnectionStore,
  UpstreamConnection,
  UpstreamConnectionDirectory,
  UpstreamConnectionStore,
} from '#upstream-access/upstream-connection';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';

/** Accounts of people at upstreams in SQL. One that has no person any more, or no server, is over. */
export function upstreamConnectionStore(db: Kysely<Schema>): UpstreamConnectionStore {
  const at = ({ id, version }: { id: string; version: number }) =>
    db
      .updateTable('upstream_connection')
      .where('id', '=', id)
      .where('version', '=', version)
      .where('person_id', 'is not', null);
  return {
    async of(accessId, userId) {
      const row = await inForce(db)
        .selectAll('upstream_connection')
        .where('upstream_connection.access_id', '=', accessId)
        .where('upstream_connection.person_id', '=', userId)
        .executeTakeFirst();
      return row && readConnection(row);
    },

    async put({ id, accessId, serverId, userId, organizationId, sealedTokens, createdAt }) {
      return inTransaction(db, async (transaction) => {
        const stands = await transaction
          .selectFrom('mcp_server')
          .innerJoin('membership', 'membership.organization_id', 'mcp_server.organization_id')
          .select('mcp_server.id')
          .where('mcp_server.id', '=', serverId)
          .where('mcp_server.upstream_access_id', '=', accessId)
          .where('membership.person_id', '=', userId)
          .where('membership.organization_id', '=', organizationId)
          .executeTakeFirst();
        if (!stands) return false;
        await upstreamConnectionDirectory(transaction).end(accessId, userId);
        const of = { access_id: accessId, server_id: serverId, subject: userId };
        const person = { person_id: userId, organization_id: organizationId };
        const times = { created_at: createdAt, renewed_at: createdAt };
        await transaction
          .insertInto('upstream_connection')
          .values({ id, ...of, ...person, sealed_tokens: sealedTokens, ...times })
          .execute();
        return true;
      });
    },

    async claim(connection, { now, until }) {
      const { numUpdatedRows } = await at(connection)
        .set({ claimed_until: until })
        .where('claimed_until', '<=', now)
        .where('failed_at', 'is', null)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },

    async renew(connection, { sealedTokens, now }) {
      const { numUpdatedRows } = await at(connection)
        .set({ sealed_tokens: sealedTokens, renewed_at: now, claimed_until: 0 })
        .set(({ eb }) => ({ version: eb('version', '+', 1) }))
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },

    async release(connection, failedAt) {
      await at(connection)
        .set({ claimed_until: 0, failed_at: failedAt ?? null })
        .execute();
    },
  };
}

/** Who is connected, and ending it, in SQL. */
export function upstreamConnectionDirectory(db: Kysely<Schema>): UpstreamConnectionDirectory {
  return {
    async list(accessId) {
      const rows = await inForce(db)
        .innerJoin('person', 'person.id', 'upstream_connection.person_id')
        .selectAll('upstream_connection')
        .select('person.email')
        .where('upstream_connection.access_id', '=', accessId)
        .orderBy('person.email_key')
        .execute();
      return rows.map((row) => ({
        userId: row.subject,
        email: row.email,
        createdAt: row.created_at,
        renewedAt: row.renewed_at,
        failedAt: row.failed_at ?? undefined,
      }));
    },

    async end(accessId, userId) {
      const { numUpdatedRows } = await db
        .updateTable('upstream_connection')
        .set({ person_id: null, organization_id: null })
        .where('access_id', '=', accessId)
        .where('person_id', '=', userId)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },
  };
}

/** What ended and was not told to the authorization server yet, in SQL. */
export function endedConnectionStore(db: Kysely<Schema>): EndedConnectionStore {
  return {
    async due(now, limit) {
      const rows = await db
        .selectFrom('upstream_connection')
        .leftJoin('mcp_server', 'mcp_server.upstream_access_id', 'upstream_connection.access_id')
        .leftJoin('mcp_server as place', 'place.id', 'upstream_connection.server_id')
        .leftJoin('organization', (join) =>
          join.on((on) =>
            on(
              'organization.id',
              '=',
              on.fn.coalesce('place.organization_id', 'upstream_connection.organization_id'),
            ),
          ),
        )
        .selectAll('upstream_connection')
        .select(['place.name as server_name', 'organization.name as organization_name'])
        .where((where) =>
          where.or([
            where('upstream_connection.person_id', 'is', null),
            where('mcp_server.id', 'is', null),
          ]),
        )
        .where('upstream_connection.next_attempt_at', '<=', now)
        .limit(limit)
        .execute();
      return rows.map((row) => ({
        id: row.id,
        accessId: row.access_id,
        serverId: row.server_id,
        userId: row.subject,
        organization: row.organization_name ?? undefined,
        server: row.server_name ?? row.server_id,
        sealedTokens: row.sealed_tokens,
        attempts: row.attempts,
      }));
    },

    async postpone({ id, attempts }, next) {
      const { numUpdatedRows } = await db
        .updateTable('upstream_connection')
        .set({ attempts: attempts + 1, next_attempt_at: next })
        .where('id', '=', id)
        .where('attempts', '=', attempts)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },

    async remove(id) {
      await db.deleteFrom('upstream_connection').where('id', '=', id).execute();
    },

    async forgetAccesses() {
      await sql`delete from upstream_access
        where not exists (select 1 from mcp_server s where s.upstream_access_id = upstream_access.id)
          and not exists (
            select 1 from upstream_connection c where c.access_id = upstream_access.id)
          and (registration_url is null or exists (
            select 1 from upstream_access o where o.registration_url = upstream_access.registration_url
              and o.id > upstream_access.id))`.execute(db);
    },
  };
}

/** Connections of people to what their server still names. */
function inForce(db: Kysely<Schema>) {
  return db
    .selectFrom('upstream_connection')
    .innerJoin('mcp_server', 'mcp_server.upstream_access_id', 'upstream_connection.access_id');
}

function readConnection(row: Selectable<Schema['upstream_connection']>): UpstreamConnection {
  return {
    id: row.id,
    accessId: row.access_id,
    serverId: row.server_id,
    userId: row.subject,
    organizationId: row.organization_id ?? '',
    sealedTokens: row.sealed_tokens,
    version: row.version,
    createdAt: row.created_at,
    renewedAt: row.renewed_at,
    ...(row.failed_at !== null && { failedAt: row.failed_at }),
  };
}
