import { sql, type Selectable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import {
  serverMetadataSchema,
  type Discovered,
  type ServerMetadata,
} from '#model/authorization-server';
import { credentialsUrl } from '#model/upstream-kinds';
import { readStrings } from './columns.ts';
import type { Schema } from './schema.ts';
import { lockUpstream } from './servers.ts';
import { transaction, type Db } from './transaction.ts';
import { hostAndPort } from '#outbound/checked-addresses';

// The credentials with which the server requests tokens for upstreams. A target's row names the access that it uses.

/** The grant: `client_credentials` gets one token for all callers, `authorization_code` one for each person. */
export type UpstreamAccessKind = 'client_credentials' | 'authorization_code';

/** How the server requests tokens for an HTTP upstream from the upstream's authorization server. */
export interface UpstreamAccess extends Omit<Discovered, 'resource'> {
  readonly id: string;
  readonly targetId: string;
  /** The endpoint for which it was set up. The audit log names it when the access is cleaned up. */
  readonly endpointId: string;
  readonly kind: UpstreamAccessKind;
  /** The URL of the upstream. Its tokens are sent to no other URL. */
  readonly url: string;
  /**
   * The upstream's resource identifier, sent byte for byte in every token request, so that the token is valid only there.
   * `undefined` when an administrator chose to omit it, for an authorization server that refuses it. It is never omitted
   * automatically: an attacker could answer `invalid_target` to get a token that other servers accept too.
   *
   * RFC 8707 §2, §3
   */
  readonly resource: string | undefined;
  /** The server's client id at the authorization server. */
  readonly clientId: string;
  /** Encrypted for `secretPurpose`; `undefined` for a public client. */
  readonly sealedClientSecret: string | undefined;
  /** The scopes to request; an empty list leaves them to the authorization server. */
  readonly scopes: readonly string[];
  /** Each as `host:port`. The operator allowed these; they may be in a private network. */
  readonly vouchedHosts: readonly string[];
  readonly createdAt: EpochSeconds;
  /** The dynamic registration of the client, if it can be removed. */
  readonly registration?: ClientRegistration | undefined;
}

/** Where a dynamic registration can be managed, and the token for that. RFC 7592 §3 */
export interface ClientRegistration {
  readonly url: string;
  /** Encrypted for `registrationPurpose`. */
  readonly sealedToken: string;
}

/** A registration that no access uses any longer, to be removed at its authorization server. */
export type EndedRegistration = Awaited<ReturnType<typeof listEndedRegistrations>>[number];

export async function findUpstreamAccess(db: Db, id: string): Promise<UpstreamAccess | undefined> {
  const row = await db
    .selectFrom('upstream_access')
    .selectAll()
    .where('id', '=', id)
    .executeTakeFirst();
  return row && readAccess(row);
}

/** Whether a target uses the access. */
export async function isUpstreamAccessActive(db: Db, id: string): Promise<boolean> {
  const row = await db
    .selectFrom('target')
    .select('id')
    .where('upstream_access_id', '=', id)
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Sets the access of a target. Takes effect on the next call. An access with another id replaces the previous one, whose
 * connections end.
 *
 * @returns `false` when the target's upstream does not have the access's `url`
 */
export async function replaceUpstreamAccess(db: Db, access: UpstreamAccess): Promise<boolean> {
  const { id, targetId, endpointId, url } = access;
  const of = { target_id: targetId, endpoint_id: endpointId };
  const columns = accessColumns(access);
  return transaction(db, async (tx) => {
    await tx
      .insertInto('upstream_access')
      .values({ id, ...of, created_at: access.createdAt, ...columns })
      .onConflict((conflict) =>
        conflict
          .column('id')
          .doUpdateSet(columns)
          .where('upstream_access.target_id', '=', targetId),
      )
      .execute();
    const upstream = await lockUpstream(tx, targetId);
    if (!upstream || credentialsUrl(upstream) !== url) return false;
    await tx
      .updateTable('target')
      .set({ upstream_access_id: id })
      .where('id', '=', targetId)
      .execute();
    return true;
  });
}

/** Removes the target's access. Its connections end. */
export async function removeUpstreamAccess(db: Db, targetId: string): Promise<void> {
  await db
    .updateTable('target')
    .set({ upstream_access_id: null })
    .where('id', '=', targetId)
    .execute();
}

/** Sets whether the target's calls contain a signed assertion of the caller's identity. */
export async function updateForwardsCaller(
  db: Db,
  targetId: string,
  forwards: boolean,
): Promise<void> {
  await transaction(db, async (tx) => {
    const upstream = await lockUpstream(tx, targetId);
    if (!upstream || credentialsUrl(upstream) === undefined) return;
    await tx
      .updateTable('target')
      .set({ upstream_forwards_caller: forwards ? 1 : 0 })
      .where('id', '=', targetId)
      .execute();
  });
}

/** Deletes accesses that no target, connection or pending cleanup needs. */
export async function deleteUnusedUpstreamAccesses(db: Db): Promise<void> {
  await sql`delete from upstream_access
    where not exists (select 1 from target t where t.upstream_access_id = upstream_access.id)
      and not exists (
        select 1 from upstream_connection c where c.access_id = upstream_access.id)
      and (registration_url is null or exists (
        select 1 from upstream_access o where o.registration_url = upstream_access.registration_url
          and o.id > upstream_access.id))`.execute(db);
}

/** No target uses the access, no connection has tokens left to revoke, and no other access has the same registration. */
const isUnused = sql<boolean>`not exists (
    select 1 from target t where t.upstream_access_id = upstream_access.id)
  and not exists (
    select 1 from upstream_connection c where c.access_id = upstream_access.id)
  and not exists (
    select 1 from upstream_access o where o.registration_url = upstream_access.registration_url
      and o.id <> upstream_access.id)`;

/** Registrations that can be removed now. A registration that another access took over belongs to that access. */
export async function listEndedRegistrations(db: Db, now: EpochSeconds, limit: number) {
  const rows = await db
    .selectFrom('upstream_access')
    .leftJoin('endpoint as place', 'place.id', 'upstream_access.endpoint_id')
    .leftJoin('organization', 'organization.id', 'place.organization_id')
    .selectAll('upstream_access')
    .select(['place.name as server_name', 'organization.name as organization_name'])
    .where('upstream_access.registration_url', 'is not', null)
    .where('upstream_access.next_attempt_at', '<=', now)
    .where(isUnused)
    .limit(limit)
    .execute();
  return rows.flatMap((row) => {
    const access = readAccess(row);
    const { registration } = access;
    if (!registration) return [];
    return [
      {
        access,
        registration,
        /** `undefined` once it is deleted. */
        organization: row.organization_name ?? undefined,
        /** The server's name; its id once it is deleted. */
        server: row.server_name ?? row.endpoint_id,
        attempts: row.attempts,
      } as const,
    ];
  });
}

/** Sets the next attempt to `next`. @returns `true` only for the one process that may make the current attempt */
export async function postponeEndedRegistration(
  db: Db,
  { accessId, attempts }: { readonly accessId: string; readonly attempts: number },
  next: EpochSeconds,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('upstream_access')
    .set({ attempts: attempts + 1, next_attempt_at: next })
    .where('id', '=', accessId)
    .where('attempts', '=', attempts)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

export async function deleteEndedRegistration(db: Db, accessId: string): Promise<void> {
  await db
    .updateTable('upstream_access')
    .set({ registration_url: null, sealed_registration_token: null })
    .where('id', '=', accessId)
    .execute();
}

function accessColumns(access: UpstreamAccess) {
  return {
    kind: access.kind,
    url: access.url,
    metadata: JSON.stringify(access.metadata),
    // Empty for none. A resource is an absolute URI and therefore never empty. RFC 8707 §2
    resource: access.resource ?? '',
    client_id: access.clientId,
    sealed_client_secret: access.sealedClientSecret ?? null,
    scopes: JSON.stringify(access.scopes),
    vouched_hosts: JSON.stringify(access.vouchedHosts),
    registration_url: access.registration?.url ?? null,
    sealed_registration_token: access.registration?.sealedToken ?? null,
  };
}

function readAccess(row: Selectable<Schema['upstream_access']>): UpstreamAccess {
  const metadata = serverMetadataSchema.parse(JSON.parse(row.metadata));
  const { registration_url: url, sealed_registration_token: sealedToken } = row;
  return {
    id: row.id,
    targetId: row.target_id,
    endpointId: row.endpoint_id,
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

/**
 * Returns the hosts that the operator vouched for, each with its port. A host stored without a port means the ports by
 * which the operator named it: those of the upstream and of its authorization server.
 */
export function vouchedHosts(
  stored: readonly string[],
  { url, metadata }: { readonly url: string; readonly metadata: ServerMetadata },
): string[] {
  const named = [url, metadata.issuer].map((one) => new URL(one));
  const all = stored.flatMap((host) =>
    /:\d+$/.test(host)
      ? [host]
      : named.filter(({ hostname }) => hostname === host).map((one) => hostAndPort(one)),
  );
  return [...new Set(all)];
}
