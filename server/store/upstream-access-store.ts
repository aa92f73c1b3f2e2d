import type { Kysely, Selectable } from 'kysely';

import { serverMetadataSchema } from '#upstream-access/discovered';
import type { UpstreamAccess, UpstreamAccessStore } from '#upstream-access/upstream-access';
import { vouchedHosts } from '#upstream-access/vouched-hosts';
import { readStrings } from './json-column.ts';
import { inTransaction } from './in-transaction.ts';
import { headersText } from './organization-store.ts';
import type { Schema } from './schema.ts';

const notedEverySeconds = 60;

/** What upstreams want of us, in SQL. The one in force is the one that its server names. */
export function upstreamAccessStore(db: Kysely<Schema>): UpstreamAccessStore {
  return {
    async byId(id) {
      const row = await db
        .selectFrom('upstream_access')
        .selectAll()
        .where('id', '=', id)
        .executeTakeFirst();
      return row && readAccess(row);
    },

    async isInForce(id) {
      const row = await db
        .selectFrom('mcp_server')
        .select('id')
        .where('upstream_access_id', '=', id)
        .executeTakeFirst();
      return row !== undefined;
    },

    async set(access) {
      const { id, serverId, url } = access;
      const columns = accessColumns(access);
      return inTransaction(db, async (transaction) => {
        await transaction
          .insertInto('upstream_access')
          .values({ id, server_id: serverId, created_at: access.createdAt, ...columns })
          .onConflict((conflict) =>
            conflict
              .column('id')
              .doUpdateSet(columns)
              .where('upstream_access.server_id', '=', serverId),
          )
          .execute();
        const { numUpdatedRows } = await transaction
          .updateTable('mcp_server')
          .set({ upstream_access_id: id })
          .where('id', '=', serverId)
          .where('upstream_kind', '=', 'http')
          .where('upstream_url', '=', url)
          .executeTakeFirst();
        return numUpdatedRows === 1n;
      });
    },

    async clear(serverId) {
      await db
        .updateTable('mcp_server')
        .set({ upstream_access_id: null })
        .where('id', '=', serverId)
        .execute();
    },

    async setTellsCallers(serverId, tells) {
      await db
        .updateTable('mcp_server')
        .set({ upstream_tells_callers: tells ? 1 : 0 })
        .where('id', '=', serverId)
        .where('upstream_kind', '=', 'http')
        .execute();
    },

    async noteHeadersRefused(serverId, headers, now) {
      await db
        .updateTable('mcp_server')
        .set({ upstream_headers_refused_at: now })
        .where('id', '=', serverId)
        .where('upstream_headers', '=', headersText(headers))
        .where((where) =>
          where.or([
            where('upstream_headers_refused_at', 'is', null),
            where('upstream_headers_refused_at', '<=', now - notedEverySeconds),
          ]),
        )
        .execute();
    },
  };
}

function accessColumns(access: UpstreamAccess) {
  return {
    kind: access.kind,
    url: access.url,
    metadata: JSON.stringify(access.metadata),
    // Empty where it is not named, which no resource is: that is an absolute URI. RFC 8707 §2
    resource: access.resource ?? '',
    client_id: access.clientId,
    sealed_client_secret: access.sealedClientSecret ?? null,
    scopes: JSON.stringify(access.scopes),
    vouched_hosts: JSON.stringify(access.vouchedHosts),
    registration_url: access.registration?.url ?? null,
    sealed_registration_token: access.registration?.sealedToken ?? null,
  };
}

export function readAccess(row: Selectable<Schema['upstream_access']>): UpstreamAccess {
  const metadata = serverMetadataSchema.parse(JSON.parse(row.metadata));
  const { registration_url: url, sealed_registration_token: sealedToken } = row;
  return {
    id: row.id,
    serverId: row.server_id,
    kind: row.kind === 'client_credentials' ? 'client_credentials' : 'authorization_code',
    url: row.url,
    metadata,
    resource: row.resource === '' ? undefined : row.resource,
    clientId: row.client_id,
    sealedClientSecret: row.sealed_client_secret ?? undefined,
    scopes: readStrings(row.scopes),
    vouchedHosts: vouchedHosts(readStrings(row.vouched_hosts), { url: row.url, metadata }),
    createdAt: row.created_at,
    ...(url !== null && sealedToken !== null && { registration: { url, sealedToken } }),
  };
}
