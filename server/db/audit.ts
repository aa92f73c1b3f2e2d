import { randomBytes } from 'node:crypto';

import { sql, type Selectable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Schema } from './schema.ts';
import { advisoryLock, transaction, type Db } from './transaction.ts';

// The audit log. The database itself refuses to change an event, or to remove a recent one.

/** One entry of the audit log. It is never changed and contains no secret. */
export interface AuditEvent {
  readonly at: EpochSeconds;
  /** `user:…`, `client:…`, `key:…`, `operator` for the command line, `system` for the server itself, `scim` for a directory, or `anonymous`. */
  readonly actor: string;
  readonly organization: string | undefined;
  /** For example `sign-in`, `consent.allow` or `refresh-token.reuse`. */
  readonly action: string;
  readonly target: string | undefined;
  readonly address: string | undefined;
  readonly requestId: string | undefined;
  readonly outcome: 'done' | 'refused';
  /** How often it happened: repetitions are counted in one entry. Default: 1. */
  readonly times?: number;
  /** From `auditTick`, for an event that is added later than it happened. Default: now. */
  readonly tick?: bigint;
}

/** A number that orders the events of one process within a second. */
export function auditTick(): bigint {
  return process.hrtime.bigint();
}

/** A stored event. Events of the same second are ordered by `id`. */
export interface StoredAuditEvent extends AuditEvent {
  readonly id: string;
}

/** Selects events. An omitted member does not restrict the result. */
export interface AuditQuery {
  /** The organization's name; `null` selects events that belong to no organization, `undefined` selects all events. */
  readonly organization: string | null | undefined;
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  readonly target?: string | undefined;
  readonly outcome?: 'done' | 'refused' | undefined;
  readonly requestId?: string | undefined;
  /** Inclusive. */
  readonly from?: EpochSeconds | undefined;
  /** Exclusive. */
  readonly until?: EpochSeconds | undefined;
  /** Selects only events older than this one. */
  readonly after?: { readonly at: EpochSeconds; readonly id: string } | undefined;
  readonly limit: number;
}

/** Where a request came from, as the audit log records it. */
export type RequestSource = Pick<AuditEvent, 'address' | 'requestId'>;

/**
 * Adds an event. What a person does outside any organization, such as signing in, is recorded in each organization that they
 * belong to at that moment.
 */
export async function insertAuditEvent(db: Db, event: AuditEvent): Promise<void> {
  await transaction(db, async (tx) => {
    for (const organization of await organizationsOf(event, tx)) {
      await tx
        .insertInto('audit_event')
        .values({
          id: nextId(event),
          sequence: await nextSequence(tx, organization),
          at: event.at,
          actor: event.actor,
          organization,
          action: event.action,
          target: event.target ?? null,
          address: event.address ?? null,
          request_id: event.requestId ?? null,
          outcome: event.outcome,
          times: event.times ?? 1,
        })
        .execute();
    }
  });
}

/** The selected events, newest first. Later pages of a long audit log are as fast as the first. */
export async function listAuditEvents(
  db: Db,
  {
    organization,
    actor,
    action,
    target,
    outcome,
    requestId,
    from,
    until,
    after,
    limit,
  }: AuditQuery,
): Promise<StoredAuditEvent[]> {
  let query = db
    .selectFrom('audit_event')
    .selectAll()
    .orderBy('at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit);
  const equal = { organization, actor, action, target, outcome };
  for (const name of ['organization', 'actor', 'action', 'target', 'outcome'] as const) {
    const value = equal[name];
    if (value === null) query = query.where(name, 'is', null);
    else if (value !== undefined) query = query.where(name, '=', value);
  }
  if (requestId !== undefined) query = query.where('request_id', '=', requestId);
  if (from !== undefined) query = query.where('at', '>=', from);
  if (until !== undefined) query = query.where('at', '<', until);
  if (after) query = query.where(sql<boolean>`(at, id) < (${after.at}, ${after.id})`);
  return (await query.execute()).map(readAuditEvent);
}

/**
 * The names of records by their ids: API keys, OAuth clients, agents, groups, webhooks, people, their personal tokens, and directory
 * entries, which also name people who left. Finds only records of the organization, because a refused request can name the ids of
 * others. `former` are ids of people who were members, for example because something was done to them as members.
 */
export async function findAuditedNames(
  db: Db,
  organization: string,
  ids: readonly string[],
  former: readonly string[] = [],
): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map();
  const own = db.selectFrom('organization').select('id').where('name', '=', organization);
  const members = db
    .selectFrom('membership')
    .select('person_id')
    .where('organization_id', 'in', own);
  const inOrganization = (table: 'api_key' | 'oauth_client' | 'agent' | 'person_group') =>
    db
      .selectFrom(table)
      .select(['id', 'name'])
      .where('id', 'in', ids)
      .where('organization_id', 'in', own)
      .execute();
  const provisioned = await db
    .selectFrom('scim_user')
    .select(['id', 'person_id', 'user_name as name'])
    .where((where) => where.or([where('id', 'in', ids), where('person_id', 'in', ids)]))
    .where('organization_id', 'in', own)
    .execute();
  const found = [
    ...provisioned.map(({ id, name }) => ({ id, name })),
    ...provisioned.map(({ id, person_id: person, name }) => ({ id: person ?? id, name })),
    ...(await inOrganization('api_key')),
    ...(await inOrganization('oauth_client')),
    ...(await inOrganization('agent')),
    ...(await inOrganization('person_group')),
    ...(await db
      .selectFrom('webhook')
      .select(['id', 'url as name'])
      .where('id', 'in', ids)
      .where('organization_id', 'in', own)
      .execute()),
    ...(await db
      .selectFrom('person')
      .select(['id', 'email as name'])
      .where('id', 'in', ids)
      .where((where) =>
        where.or([
          where('id', 'in', members),
          ...(former.length > 0 ? [where('id', 'in', former)] : []),
        ]),
      )
      .execute()),
    ...(await db
      .selectFrom('personal_token')
      .select(['id', 'name'])
      .where('id', 'in', ids)
      .where('person_id', 'in', members)
      .execute()),
  ];
  return new Map(found.map(({ id, name }) => [id, name]));
}

/** The distinct actions in the audit log of an organization, in alphabetical order. `undefined` selects events of no organization. */
export async function listAuditActions(
  db: Db,
  organization: string | undefined,
): Promise<string[]> {
  // Each step jumps to the next action in the index, however many events have the current one.
  const { rows } = await sql<{ action: string }>`
    with recursive known (action) as (
      select min(action) from audit_event where organization is not distinct from ${organization ?? null}
      union all
      select (select min(e.action) from audit_event e
        where e.organization is not distinct from ${organization ?? null} and e.action > known.action)
      from known where known.action is not null
    )
    select action from known where action is not null`.execute(db);
  return rows.map(({ action }) => action);
}

/**
 * Removes the oldest events that happened before a time and were sent to all active webhooks of their organization, at most
 * `limit` of them, and records the removal as an event in each organization. Returns the number of removed events.
 *
 * @throws {Error} when an event is too recent to be removed: see `leastRetentionDays`
 */
export async function removeOldAuditEvents(
  db: Db,
  { before, limit, now }: { before: EpochSeconds; limit: number; now: EpochSeconds },
): Promise<number> {
  return transaction(db, async (tx) => {
    await advisoryLock(tx, 'audit retention');
    const old = await tx
      .selectFrom('audit_event')
      .select(['id', 'organization'])
      .where('at', '<', before)
      .where((where) =>
        where.not(
          where.exists(
            where
              .selectFrom('webhook')
              .innerJoin('organization', 'organization.id', 'webhook.organization_id')
              .select('webhook.id')
              .whereRef('organization.name', '=', 'audit_event.organization')
              .whereRef('webhook.position', '<', 'audit_event.sequence')
              .where('webhook.disabled_at', 'is', null),
          ),
        ),
      )
      .orderBy('at')
      .orderBy('id')
      .limit(limit)
      .execute();
    if (old.length === 0) return 0;
    await tx.insertInto('audit_retention').values({ one: 1, removes_before: before }).execute();
    await tx
      .deleteFrom('audit_event')
      .where(
        'id',
        'in',
        old.map(({ id }) => id),
      )
      .execute();
    await tx.deleteFrom('audit_retention').execute();
    const date = new Date(before * 1000).toISOString().slice(0, 10);
    const counts = Map.groupBy(old, ({ organization }) => organization);
    for (const [organization, { length }] of [...counts].toSorted(byOrganization)) {
      await insertAuditEvent(tx, {
        at: now,
        actor: 'system',
        organization: organization ?? undefined,
        action: 'audit.expire',
        target: `${length} ${length === 1 ? 'entry' : 'entries'} from before ${date}`,
        address: undefined,
        requestId: undefined,
        outcome: 'done',
      });
    }
    return old.length;
  });
}

/** Sorts organizations, so that all transactions lock the rows of several organizations in the same sequence. */
function byOrganization([one]: [string | null, unknown], [other]: [string | null, unknown]) {
  return (one ?? '') < (other ?? '') ? -1 : 1;
}

/**
 * The next sequence number of an organization, or of events that belong to none. Other transactions that need a number wait until this
 * transaction ends, so events become visible in the order of their sequence, without gaps.
 */
async function nextSequence(tx: Db, organization: string | null): Promise<number> {
  const { last } = await tx
    .insertInto('audit_order')
    .values({ organization: organization ?? '', last: 1 })
    .onConflict((conflict) =>
      conflict
        .column('organization')
        .doUpdateSet((row) => ({ last: row('audit_order.last', '+', 1) })),
    )
    .returning('last')
    .executeTakeFirstOrThrow();
  return last;
}

/** The organizations to record an event in; `null` for none. Sorted, so that two events of one person cannot deadlock. */
async function organizationsOf(
  { actor, organization }: AuditEvent,
  db: Db,
): Promise<(string | null)[]> {
  if (organization !== undefined || !actor.startsWith('user:')) return [organization ?? null];
  const names = await listAuditedIn(db, actor.slice('user:'.length));
  return names.length > 0 ? names : [null];
}

/** The names of the organizations whose audit logs record what a person does, or what is done to their account. Sorted. */
export async function listAuditedIn(db: Db, userId: string): Promise<string[]> {
  const rows = await db
    .selectFrom('membership')
    .innerJoin('organization', 'organization.id', 'membership.organization_id')
    .select('organization.name')
    .where('membership.person_id', '=', userId)
    .orderBy('organization.name')
    .execute();
  return rows.map(({ name }) => name);
}

/** An id that sorts by time and, within a second of one process, by the order in which events happened. */
function nextId({ at, tick = auditTick() }: AuditEvent): string {
  const order = tick.toString(16).padStart(16, '0');
  return `${at.toString(16).padStart(10, '0')}${order}${randomBytes(4).toString('hex')}`;
}

export function readAuditEvent(row: Selectable<Schema['audit_event']>): StoredAuditEvent {
  return {
    id: row.id,
    at: row.at,
    actor: row.actor,
    organization: row.organization ?? undefined,
    action: row.action,
    target: row.target ?? undefined,
    address: row.address ?? undefined,
    requestId: row.request_id ?? undefined,
    outcome: row.outcome === 'done' ? 'done' : 'refused',
    ...(row.times > 1 && { times: row.times }),
  };
}
