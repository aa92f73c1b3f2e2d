import { sql } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import { revokePersonalTokens } from './personal-tokens.ts';
import type { Db } from './transaction.ts';

/*
 * What people leave behind. The creator of a key, client or agent answers for it. When a membership ends, a trigger of the
 * database marks what the person answered for, and suspends it if the organization chose so. Someone else can take it over.
 */

/** What a person answers for. */
export type OwnedKind = 'key' | 'client' | 'agent';

const tables = { key: 'api_key', client: 'oauth_client', agent: 'agent' } as const;
const kinds = ['key', 'client', 'agent'] as const satisfies readonly OwnedKind[];

/** A key, client or agent whose owner left the organization. */
export interface OwnerlessResource {
  readonly kind: OwnedKind;
  readonly id: string;
  readonly name: string;
  /** The server of a key or client. */
  readonly server: string | undefined;
  /** The agent of a key. */
  readonly agent: string | undefined;
  readonly formerOwner: string;
  /** The address of the former owner; `undefined` when their account was deleted. */
  readonly formerEmail: string | undefined;
  readonly ownerlessAt: EpochSeconds;
  readonly isSuspended: boolean;
}

/** How many of each kind. */
export type OwnedCounts = Readonly<Record<OwnedKind, number>>;

/** What needs an owner in an organization, the longest without one first: at most `limit`. */
export async function listOwnerless(
  db: Db,
  organizationId: string,
  limit: number,
): Promise<OwnerlessResource[]> {
  const { rows } = await sql<{
    kind: OwnedKind;
    id: string;
    name: string;
    server: string | null;
    agent: string | null;
    owner_id: string;
    email: string | null;
    ownerless_at: number;
    suspended_at: number | null;
  }>`select found.*, person.email from (
      select 'key' as kind, k.id, k.name, e.name as server, a.name as agent, k.owner_id, k.ownerless_at, k.suspended_at
        from api_key k left join endpoint e on e.id = k.endpoint_id left join agent a on a.id = k.agent_id
        where k.organization_id = ${organizationId} and k.ownerless_at is not null and k.revoked_at is null
      union all
      select 'client' as kind, c.id, c.name, e.name as server, null as agent, c.owner_id, c.ownerless_at, c.suspended_at
        from oauth_client c left join endpoint e on e.id = c.endpoint_id
        where c.organization_id = ${organizationId} and c.ownerless_at is not null and c.revoked_at is null
      union all
      select 'agent' as kind, g.id, g.name, null as server, null as agent, g.owner_id, g.ownerless_at, g.suspended_at
        from agent g
        where g.organization_id = ${organizationId} and g.ownerless_at is not null and g.revoked_at is null
    ) found left join person on person.id = found.owner_id
    order by found.ownerless_at, found.kind, found.id limit ${limit}`.execute(db);
  return rows.map((row) => ({
    kind: row.kind,
    id: row.id,
    name: row.name,
    server: row.server ?? undefined,
    agent: row.agent ?? undefined,
    formerOwner: row.owner_id,
    formerEmail: row.email ?? undefined,
    ownerlessAt: row.ownerless_at,
    isSuspended: row.suspended_at !== null,
  }));
}

/** How much needs an owner in an organization; only what this person left behind, if one is named. */
export async function countOwnerless(
  db: Db,
  organizationId: string,
  formerOwner?: string,
): Promise<OwnedCounts> {
  const counts = { key: 0, client: 0, agent: 0 };
  for (const kind of kinds) {
    const { count } = await db
      .selectFrom(tables[kind])
      .select(({ fn }) => fn.countAll<number | string>().as('count'))
      .where('organization_id', '=', organizationId)
      .where('ownerless_at', 'is not', null)
      .where('revoked_at', 'is', null)
      .$if(formerOwner !== undefined, (query) => query.where('owner_id', '=', formerOwner ?? ''))
      .executeTakeFirstOrThrow();
    counts[kind] = Number(count);
  }
  return counts;
}

/**
 * Makes a member the owner of what needs one, and lets it work again. With an agent, the keys of the agent that need an owner are
 * handed over too.
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
 * Ends what a person could use anywhere, if they belong to no organization any more: their sessions and personal tokens. Otherwise
 * these are for the other organizations, and open nothing in one that the person left.
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
