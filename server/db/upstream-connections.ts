import type { Selectable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Schema } from './schema.ts';
import { transaction, type Db } from './transaction.ts';

// The accounts of people at upstreams. A connection ends when its person or its server is removed. The row stays until its tokens
// have been revoked at the authorization server.

/** A person's account at an upstream. It is valid while the person is a member and the target uses the access. */
export type UpstreamConnection = ReturnType<typeof readConnection>;

function readConnection(row: Selectable<Schema['upstream_connection']>) {
  return {
    id: row.id,
    accessId: row.access_id,
    targetId: row.target_id,
    userId: row.subject,
    organizationId: row.organization_id ?? '',
    /** `UpstreamTokens` as JSON, encrypted for `tokensPurpose`. */
    sealedTokens: row.sealed_tokens,
    /** Incremented when the tokens change. */
    version: row.version,
    createdAt: row.created_at,
    /** When the tokens were last renewed. */
    renewedAt: row.renewed_at,
    /** When the authorization server refused the refresh token. */
    ...(row.failed_at !== null && { failedAt: row.failed_at }),
  } as const;
}

export type NewUpstreamConnection = Omit<UpstreamConnection, 'version' | 'renewedAt' | 'failedAt'>;

/** A connection and the version of its tokens that the caller has read. */
type ReadConnection = Pick<UpstreamConnection, 'id' | 'version'>;

/** A connection that ended and whose tokens must be revoked at the authorization server. */
export type EndedConnection = Awaited<ReturnType<typeof listEndedConnections>>[number];

export async function findUpstreamConnection(
  db: Db,
  accessId: string,
  userId: string,
): Promise<UpstreamConnection | undefined> {
  const row = await active(db)
    .selectAll('upstream_connection')
    .where('upstream_connection.access_id', '=', accessId)
    .where('upstream_connection.person_id', '=', userId)
    .executeTakeFirst();
  return row && readConnection(row);
}

/**
 * Adds a connection. The person's earlier connection ends.
 *
 * @returns `false` when the person or the access was removed in the meantime
 */
export async function replaceUpstreamConnection(
  db: Db,
  connection: NewUpstreamConnection,
): Promise<boolean> {
  const { id, accessId, targetId, userId, organizationId, sealedTokens, createdAt } = connection;
  return transaction(db, async (tx) => {
    const isActive = await tx
      .selectFrom('target')
      .innerJoin('endpoint', 'endpoint.id', 'target.endpoint_id')
      .innerJoin('membership', 'membership.organization_id', 'endpoint.organization_id')
      .select('target.id')
      .where('target.id', '=', targetId)
      .where('target.upstream_access_id', '=', accessId)
      .where('membership.person_id', '=', userId)
      .where('membership.organization_id', '=', organizationId)
      .executeTakeFirst();
    if (!isActive) return false;
    await endUpstreamConnection(tx, accessId, userId);
    const of = { access_id: accessId, target_id: targetId, subject: userId };
    const person = { person_id: userId, organization_id: organizationId };
    const times = { created_at: createdAt, renewed_at: createdAt };
    await tx
      .insertInto('upstream_connection')
      .values({ id, ...of, ...person, sealed_tokens: sealedTokens, ...times })
      .execute();
    return true;
  });
}

/** The credential that the upstream of a server requires of each person. */
export type PersonalCredential = 'account' | 'key';

/** The accounts and keys that this person has not connected or entered, or that no longer work, by the ids of these servers. */
export async function listMissingAccounts(
  db: Db,
  userId: string,
  serverIds: readonly string[],
): Promise<ReadonlyMap<string, PersonalCredential>> {
  if (serverIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('target')
    .innerJoin('upstream_access', 'upstream_access.id', 'target.upstream_access_id')
    .select('target.endpoint_id')
    .where('target.endpoint_id', 'in', [...serverIds])
    .where('upstream_access.kind', '=', 'authorization_code')
    .where((where) =>
      where.not(
        where.exists(
          where
            .selectFrom('upstream_connection')
            .select('upstream_connection.id')
            .whereRef('upstream_connection.access_id', '=', 'upstream_access.id')
            .where('upstream_connection.person_id', '=', userId)
            .where('upstream_connection.failed_at', 'is', null),
        ),
      ),
    )
    .execute();
  const keyless = await db
    .selectFrom('target')
    .select('target.endpoint_id')
    .where('target.endpoint_id', 'in', [...serverIds])
    .where('target.upstream_key', 'is not', null)
    .where((where) =>
      where.not(
        where.exists(
          where
            .selectFrom('person_key')
            .select('person_key.target_id')
            .whereRef('person_key.target_id', '=', 'target.id')
            .where('person_key.person_id', '=', userId)
            .where('person_key.refused_at', 'is', null),
        ),
      ),
    )
    .execute();
  return new Map([
    ...rows.map(({ endpoint_id: id }) => [id, 'account'] as const),
    ...keyless.map(({ endpoint_id: id }) => [id, 'key'] as const),
  ]);
}

/** Claims the renewal of this version's tokens until `until`. @returns `true` only for one caller in all processes */
export async function claimUpstreamConnection(
  db: Db,
  connection: ReadConnection,
  { now, until }: { readonly now: EpochSeconds; readonly until: EpochSeconds },
): Promise<boolean> {
  const { numUpdatedRows } = await updateVersion(db, connection)
    .set({ claimed_until: until })
    .where('claimed_until', '<=', now)
    .where('failed_at', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** Stores renewed tokens. @returns `false` when the connection ended or was replaced in the meantime */
export async function renewUpstreamConnection(
  db: Db,
  connection: ReadConnection,
  { sealedTokens, now }: { readonly sealedTokens: string; readonly now: EpochSeconds },
): Promise<boolean> {
  const { numUpdatedRows } = await updateVersion(db, connection)
    .set({ sealed_tokens: sealedTokens, renewed_at: now, claimed_until: 0 })
    .set(({ eb }) => ({ version: eb('version', '+', 1) }))
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** Releases the claim. With `failedAt`, the connection is never renewed again. */
export async function releaseUpstreamConnection(
  db: Db,
  connection: ReadConnection,
  failedAt?: EpochSeconds,
): Promise<void> {
  await updateVersion(db, connection)
    .set({ claimed_until: 0, failed_at: failedAt ?? null })
    .execute();
}

/** The people who are connected, ordered by e-mail address. */
export async function listUpstreamConnections(db: Db, accessId: string) {
  const rows = await active(db)
    .innerJoin('person', 'person.id', 'upstream_connection.person_id')
    .selectAll('upstream_connection')
    .select('person.email')
    .where('upstream_connection.access_id', '=', accessId)
    .orderBy('person.email_key')
    .execute();
  return rows.map((row) => {
    return {
      userId: row.subject,
      email: row.email,
      createdAt: row.created_at,
      renewedAt: row.renewed_at,
      failedAt: row.failed_at ?? undefined,
    } as const;
  });
}

/** Ends a connection. @returns `false` when there is none */
export async function endUpstreamConnection(
  db: Db,
  accessId: string,
  userId: string,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('upstream_connection')
    .set({ person_id: null, organization_id: null })
    .where('access_id', '=', accessId)
    .where('person_id', '=', userId)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** Connections that ended in any way: disconnected, a person, membership or server removed, an access replaced. */
export async function listEndedConnections(db: Db, now: EpochSeconds, limit: number) {
  const rows = await db
    .selectFrom('upstream_connection')
    .innerJoin('upstream_access', 'upstream_access.id', 'upstream_connection.access_id')
    .leftJoin('target', 'target.upstream_access_id', 'upstream_connection.access_id')
    .leftJoin('endpoint as place', 'place.id', 'upstream_access.endpoint_id')
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
    .select(['upstream_access.endpoint_id', 'place.name as server_name'])
    .select('organization.name as organization_name')
    .where((where) =>
      where.or([
        where('upstream_connection.person_id', 'is', null),
        where('target.id', 'is', null),
      ]),
    )
    .where('upstream_connection.next_attempt_at', '<=', now)
    .limit(limit)
    .execute();
  return rows.map((row) => {
    return {
      id: row.id,
      accessId: row.access_id,
      targetId: row.target_id,
      userId: row.subject,
      /** `undefined` once it is deleted. */
      organization: row.organization_name ?? undefined,
      /** The server's name; its id once it is deleted. */
      server: row.server_name ?? row.endpoint_id,
      sealedTokens: row.sealed_tokens,
      attempts: row.attempts,
    } as const;
  });
}

/** Sets the next attempt to `next`. @returns `true` only for the one process that may make the current attempt */
export async function postponeEndedConnection(
  db: Db,
  { id, attempts }: { readonly id: string; readonly attempts: number },
  next: EpochSeconds,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('upstream_connection')
    .set({ attempts: attempts + 1, next_attempt_at: next })
    .where('id', '=', id)
    .where('attempts', '=', attempts)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

export async function deleteEndedConnection(db: Db, id: string): Promise<void> {
  await db.deleteFrom('upstream_connection').where('id', '=', id).execute();
}

function updateVersion(db: Db, { id, version }: ReadConnection) {
  return db
    .updateTable('upstream_connection')
    .where('id', '=', id)
    .where('version', '=', version)
    .where('person_id', 'is not', null);
}

/** Connections whose access their target still uses. */
function active(db: Db) {
  return db
    .selectFrom('upstream_connection')
    .innerJoin('target', 'target.upstream_access_id', 'upstream_connection.access_id');
}
