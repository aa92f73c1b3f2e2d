import { sql } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Role } from '#model/roles';
import { revokePersonalTokens } from './personal-tokens.ts';
import { countRows } from './columns.ts';
import type { Db } from './transaction.ts';

/*
 * The keys, clients and agents that people leave behind. Each has an owner, who answers for it: at first its creator. When a membership
 * ends, a trigger of the database marks the resources that the person owned, and suspends them if the organization chose to. Another member
 * can take them over, in the same transaction or later.
 */

/** The kinds of resources that a person can own. */
export type OwnedKind = 'key' | 'client' | 'agent';

const tables = { key: 'api_key', client: 'oauth_client', agent: 'agent' } as const;
const kinds = ['key', 'client', 'agent'] as const satisfies readonly OwnedKind[];

/** A key, client or agent that a person answers for. */
export type OwnedResource = ReturnType<typeof toOwned>;

function toOwned(row: OwnedRow) {
  return {
    kind: row.kind,
    id: row.id,
    name: row.name,
    /** The server of a key or client. */
    server: row.server ?? undefined,
    /** The agent of a key. */
    agent: row.agent ?? undefined,
    createdAt: row.created_at,
    /** When a key or client was last used. */
    lastUsedAt: row.last_used_at ?? undefined,
  } as const;
}

/** A key, client or agent whose owner left the organization. */
export type OwnerlessResource = Awaited<ReturnType<typeof listOwnerless>>[number];

/** The number of resources of each kind. */
export type OwnedCounts = Readonly<Record<OwnedKind, number>>;

/** The resources of an organization that need an owner, those without one for the longest time first: at most `limit`. */
export async function listOwnerless(db: Db, organizationId: string, limit: number) {
  const rows = await selectOwned(db, organizationId, undefined, limit);
  return rows.map((row) =>
    Object.assign(toOwned(row), {
      formerOwner: row.owner_id,
      /** The address of the former owner; `undefined` when their account was deleted. */
      formerEmail: row.email ?? undefined,
      ownerlessAt: row.ownerless_at ?? 0,
      isSuspended: row.suspended_at !== null,
    } as const),
  );
}

/** The resources that a member owns in an organization, the oldest first: at most `limit`. */
export async function listOwned(
  db: Db,
  organizationId: string,
  ownerId: string,
  limit: number,
): Promise<OwnedResource[]> {
  return (await selectOwned(db, organizationId, ownerId, limit)).map(toOwned);
}

interface OwnedRow {
  readonly kind: OwnedKind;
  readonly id: string;
  readonly name: string;
  readonly server: string | null;
  readonly agent: string | null;
  readonly owner_id: string;
  readonly created_at: number;
  readonly last_used_at: number | null;
  readonly email: string | null;
  readonly ownerless_at: number | null;
  readonly suspended_at: number | null;
}

/** The unrevoked resources that this person owns or, without an `ownerId`, those that need an owner. */
async function selectOwned(
  db: Db,
  organizationId: string,
  ownerId: string | undefined,
  limit: number,
): Promise<readonly OwnedRow[]> {
  const wanted = (table: string) => {
    const [owner, ownerless] = [sql.ref(`${table}.owner_id`), sql.ref(`${table}.ownerless_at`)];
    const whose =
      ownerId === undefined
        ? sql`${ownerless} is not null`
        : sql`${ownerless} is null and ${owner} = ${ownerId}`;
    const [organization, revoked] = [`${table}.organization_id`, `${table}.revoked_at`];
    return sql`${sql.ref(organization)} = ${organizationId} and ${sql.ref(revoked)} is null and ${whose}`;
  };
  const { rows } = await sql<OwnedRow>`select found.*, person.email from (
      select 'key' as kind, k.id, k.name, e.name as server, a.name as agent, k.owner_id, k.created_at, k.last_used_at,
          k.ownerless_at, k.suspended_at
        from api_key k left join endpoint e on e.id = k.endpoint_id left join agent a on a.id = k.agent_id
        where ${wanted('k')}
      union all
      select 'client' as kind, c.id, c.name, e.name as server, null as agent, c.owner_id, c.created_at, c.last_used_at,
          c.ownerless_at, c.suspended_at
        from oauth_client c left join endpoint e on e.id = c.endpoint_id
        where ${wanted('c')}
      union all
      select 'agent' as kind, g.id, g.name, null as server, null as agent, g.owner_id, g.created_at, null as last_used_at,
          g.ownerless_at, g.suspended_at
        from agent g
        where ${wanted('g')}
    ) found left join person on person.id = found.owner_id
    order by coalesce(found.ownerless_at, found.created_at), found.kind, found.id limit ${limit}`.execute(
    db,
  );
  return rows;
}

/** Counts what ends when a member leaves an organization, apart from the resources that they own. */
export async function countEndings(
  db: Db,
  organizationId: string,
  userId: string,
  now: EpochSeconds,
) {
  const other = await db
    .selectFrom('membership')
    .select('organization_id')
    .where('person_id', '=', userId)
    .where('organization_id', '<>', organizationId)
    .limit(1)
    .executeTakeFirst();
  const staysElsewhere = other !== undefined;
  const { rows } = await sql<
    Record<'applications' | 'connections' | 'invitations' | 'sessions' | 'tokens', number | string>
  >`select
      (select count(*) from oauth_grant g join endpoint e on e.id = g.endpoint_id
        where g.person_id = ${userId} and e.organization_id = ${organizationId}
          and g.revoked_at is null and g.expires_at > ${now}) as applications,
      (select count(*) from upstream_connection
        where person_id = ${userId} and organization_id = ${organizationId})
        + (select count(*) from person_key
        where person_id = ${userId} and organization_id = ${organizationId}) as connections,
      (select count(*) from invitation
        where organization_id = ${organizationId} and created_by = ${`user:${userId}`}
          and expires_at > ${now}) as invitations,
      (select count(*) from browser_session
        where person_id = ${userId} and expires_at > ${now}
          and (organization_id = ${organizationId} or ${staysElsewhere ? 1 : 0} = 0)) as sessions,
      (select count(*) from personal_token
        where person_id = ${userId} and revoked_at is null and expires_at > ${now}
          and ${staysElsewhere ? 1 : 0} = 0) as tokens`.execute(db);
  const [counts] = rows;
  return {
    applications: Number(counts?.applications ?? 0),
    connections: Number(counts?.connections ?? 0),
    invitations: Number(counts?.invitations ?? 0),
    sessions: Number(counts?.sessions ?? 0),
    tokens: Number(counts?.tokens ?? 0),
    staysElsewhere,
  };
}

/** How many resources of an organization need an owner. With `formerOwner`, only those that this person left behind. */
export async function countOwnerless(
  db: Db,
  organizationId: string,
  formerOwner?: string,
): Promise<OwnedCounts> {
  const counts = { key: 0, client: 0, agent: 0 };
  for (const kind of kinds) {
    counts[kind] = await countRows(
      db
        .selectFrom(tables[kind])
        .where('organization_id', '=', organizationId)
        .where('ownerless_at', 'is not', null)
        .where('revoked_at', 'is', null)
        .$if(formerOwner !== undefined, (query) => query.where('owner_id', '=', formerOwner ?? '')),
    );
  }
  return counts;
}

/**
 * Makes a member the owner of a resource that needs one, and lets it work again. With an agent, those of its keys that need an
 * owner are handed over too.
 *
 * @returns `stranger` when the person is not a member; `unknown` when there is no such resource that needs an owner
 */
export async function handOver(
  tx: Db,
  organizationId: string,
  { kind, id }: { readonly kind: OwnedKind; readonly id: string },
  to: string,
): Promise<'done' | 'unknown' | 'stranger'> {
  const member = await tx
    .selectFrom('membership')
    .select('role')
    .where('organization_id', '=', organizationId)
    .where('person_id', '=', to)
    .executeTakeFirst();
  if (!member) return 'stranger';
  const owned = { owner_id: to, ownerless_at: null, suspended_at: null };
  const { numUpdatedRows } = await tx
    .updateTable(tables[kind])
    .set(owned)
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .where('ownerless_at', 'is not', null)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) return 'unknown';
  if (kind === 'agent') {
    await tx
      .updateTable('api_key')
      .set(owned)
      .where('agent_id', '=', id)
      .where('ownerless_at', 'is not', null)
      .where('revoked_at', 'is', null)
      .execute();
  }
  return 'done';
}

/**
 * Ends a person's sessions and personal tokens if they belong to no organization any more. Otherwise these stay valid for the
 * person's other organizations, but not for the one that they left.
 */
export async function endLastAccess(tx: Db, userId: string, now: EpochSeconds): Promise<void> {
  const other = await tx
    .selectFrom('membership')
    .select('organization_id')
    .where('person_id', '=', userId)
    .limit(1)
    .executeTakeFirst();
  if (other) return;
  await tx.deleteFrom('browser_session').where('person_id', '=', userId).execute();
  await revokePersonalTokens(tx, userId, now);
}

/** At most 500 members with one of these roles, leaving out the person `except`, ordered by address. */
export function listTakers(
  db: Db,
  organizationId: string,
  roles: readonly Role[],
  except: string,
): Promise<{ readonly id: string; readonly email: string }[]> {
  return db
    .selectFrom('membership')
    .innerJoin('person', 'person.id', 'membership.person_id')
    .select(['person.id', 'person.email'])
    .where('membership.organization_id', '=', organizationId)
    .where('membership.role', 'in', roles)
    .where('person.id', '<>', except)
    .orderBy('person.email_key')
    .limit(500)
    .execute();
}
