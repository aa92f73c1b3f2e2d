import type { InferResult } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import { lockGroups } from './groups.ts';
import { lockMembers } from './people.ts';
import { noGroupKeepsOut } from './server-access.ts';
import { countRows } from './columns.ts';
import { advisoryLock, transaction, type Db } from './transaction.ts';

// Requests of members for access to a server that none of their groups may use. A request is decided once, by compare-and-set. If
// the person gets access another way, the request is no longer listed as open.

export type AccessRequest = ReturnType<typeof readRequest>;

function readRequest(row: InferResult<ReturnType<typeof selectRequests>>[number]) {
  return {
    /** `request_` and 16 base62 characters. */
    id: row.id,
    serverId: row.endpoint_id,
    /** The name of the server. */
    server: row.name,
    /** Its title; empty if it has none. */
    title: row.title,
    userId: row.person_id,
    email: row.email,
    reason: row.reason,
    status: row.status,
    createdAt: row.created_at,
    decidedAt: row.decided_at ?? undefined,
    /** The actor who decided. */
    decidedBy: row.decided_by ?? undefined,
    /** The name of the group that the person was added to. */
    group: row.group_name ?? undefined,
    /** Why the request was declined. */
    answer: row.answer,
  } as const;
}

/** How many requests a person may have open in one organization, and may make there in a day. */
export const mostOpenRequests = 10;
export const mostRequestsADay = 20;
const daySeconds = 86_400;
/** A decided request is listed at least this long: the next new request in its organization deletes older ones. */
const listedSeconds = 90 * daySeconds;

export interface NewAccessRequest {
  readonly id: string;
  readonly organizationId: string;
  /** The name of the server. */
  readonly server: string;
  readonly userId: string;
  readonly reason: string;
}

/**
 * Adds the request of a member, and deletes requests that were decided more than `listedSeconds` ago.
 *
 * @returns `unknown` if members may not ask for a server of that name, `usable` if the person can already use it, `asked` if they already
 * have an open request for it, `too-many` if a limit is reached, otherwise `done`
 */
export async function insertAccessRequest(
  db: Db,
  { id, organizationId, server, userId, reason }: NewAccessRequest,
  now: EpochSeconds,
): Promise<'done' | 'unknown' | 'usable' | 'asked' | 'too-many'> {
  return transaction(db, async (tx) => {
    await advisoryLock(tx, `access requests ${organizationId} ${userId}`);
    const found = await tx
      .selectFrom('endpoint')
      .innerJoin('membership', 'membership.organization_id', 'endpoint.organization_id')
      .select((eb) => ['endpoint.id', 'endpoint.is_requestable', usable(eb)])
      .where('endpoint.organization_id', '=', organizationId)
      .where('endpoint.name', '=', server)
      .where('endpoint.disabled_at', 'is', null)
      .where('membership.person_id', '=', userId)
      .executeTakeFirst();
    if (!found) return 'unknown';
    if (found.is_usable === 1) return 'usable';
    if (found.is_requestable !== 1) return 'unknown';
    await tx
      .deleteFrom('access_request')
      .where('organization_id', '=', organizationId)
      .where('decided_at', '<=', now - listedSeconds)
      .execute();
    const own = await tx
      .selectFrom('access_request')
      .select(['endpoint_id', 'status', 'created_at'])
      .where('organization_id', '=', organizationId)
      .where('person_id', '=', userId)
      .execute();
    const open = own.filter(({ status }) => status === 'open');
    if (open.some(({ endpoint_id: endpointId }) => endpointId === found.id)) return 'asked';
    const today = own.filter(({ created_at: createdAt }) => createdAt > now - daySeconds);
    if (open.length >= mostOpenRequests || today.length >= mostRequestsADay) return 'too-many';
    await tx
      .insertInto('access_request')
      .values({
        id,
        organization_id: organizationId,
        endpoint_id: found.id,
        person_id: userId,
        reason,
        status: 'open',
        created_at: now,
      })
      .execute();
    return 'done';
  });
}

/** The open requests of an organization, the oldest first, at most `limit`, and how many there are. */
export async function openAccessRequests(
  db: Db,
  organizationId: string,
  limit = 100,
): Promise<{ readonly total: number; readonly items: readonly AccessRequest[] }> {
  return listAccessRequests(db, organizationId, { status: 'open', limit, offset: 0 });
}

/** The open requests of an organization, the oldest first, or those that were decided, the newest first. */
export async function listAccessRequests(
  db: Db,
  organizationId: string,
  {
    status,
    limit,
    offset,
  }: {
    readonly status: 'open' | 'decided';
    readonly limit: number;
    readonly offset: number;
  },
): Promise<{ readonly total: number; readonly items: readonly AccessRequest[] }> {
  const isOpen = status === 'open';
  const wanted = selectRequests(db)
    .where('access_request.organization_id', '=', organizationId)
    .where('access_request.status', isOpen ? '=' : '<>', 'open')
    .$if(isOpen, (query) => query.where((eb) => eb.not(noGroupKeepsOut(eb))));
  const total = await countRows(wanted);
  const rows = await wanted
    .orderBy(isOpen ? 'access_request.created_at' : 'access_request.decided_at', (order) =>
      isOpen ? order.asc() : order.desc(),
    )
    .orderBy('access_request.id')
    .limit(limit)
    .offset(offset)
    .execute();
  return { total, items: rows.map(readRequest) };
}

/** A request of an organization. `isUsable`: the person who asked can use the server now. */
export async function findAccessRequest(
  db: Db,
  organizationId: string,
  id: string,
): Promise<(AccessRequest & { readonly isUsable: boolean }) | undefined> {
  const row = await selectRequests(db)
    .select(usable)
    .where('access_request.organization_id', '=', organizationId)
    .where('access_request.id', '=', id)
    .executeTakeFirst();
  return row && { ...readRequest(row), isUsable: row.is_usable === 1 };
}

/**
 * The newest request of a person for each server of an organization, by the id of the server. `title` is empty if the person can
 * neither use the server nor ask for it any more.
 */
export async function newestRequestsOf(
  db: Db,
  organizationId: string,
  userId: string,
): Promise<ReadonlyMap<string, AccessRequest>> {
  const rows = await selectRequests(db)
    .select(usable)
    .select('endpoint.is_requestable')
    .where('access_request.organization_id', '=', organizationId)
    .where('access_request.person_id', '=', userId)
    .orderBy('access_request.created_at')
    .execute();
  const requests = rows.map((row) => {
    const isListed = row.is_usable === 1 || row.is_requestable === 1;
    return readRequest(isListed ? row : { ...row, title: '' });
  });
  // An open request is the newest, even if another was withdrawn in the same second.
  const ended = requests.filter(({ status }) => status !== 'open');
  const open = requests.filter(({ status }) => status === 'open');
  return new Map([...ended, ...open].map((request) => [request.serverId, request]));
}

/** How a request ends. */
export interface Decision {
  readonly status: Exclude<AccessRequest['status'], 'open'>;
  readonly by: string;
  readonly at: EpochSeconds;
  /** The name of the group, if granted. */
  readonly group?: string;
  readonly answer?: string;
}

/** Ends an open request. @returns `false` when it is not open any more: someone else decided first */
export async function decideAccessRequest(
  tx: Db,
  organizationId: string,
  id: string,
  { status, by, at, group, answer = '' }: Decision,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('access_request')
    .set({ status, decided_by: by, decided_at: at, group_name: group ?? null, answer })
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .where('status', '=', 'open')
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/**
 * Within a transaction: the groups that may use a server. Members and groups stay locked until the transaction ends, so that
 * adding a person to one of these groups is sure to give access. Empty if everyone may use the server.
 */
export async function lockOpeningGroups(
  tx: Db,
  organizationId: string,
  serverId: string,
): Promise<readonly { readonly id: string; readonly name: string }[]> {
  await lockMembers(tx, organizationId);
  await lockGroups(tx, organizationId);
  return tx
    .selectFrom('endpoint_group')
    .innerJoin('person_group', 'person_group.id', 'endpoint_group.group_id')
    .innerJoin('endpoint', 'endpoint.id', 'endpoint_group.endpoint_id')
    .select(['person_group.id', 'person_group.name'])
    .where('endpoint_group.endpoint_id', '=', serverId)
    .where('endpoint.organization_id', '=', organizationId)
    .where('endpoint.access', '=', 'groups')
    .execute();
}

/** A server that a person cannot use, but may ask for. */
export interface RequestableServer {
  readonly id: string;
  readonly name: string;
  readonly title: string;
  readonly description: string;
}

/** The enabled servers of an organization that a member may ask for: at most `limit`, sorted by name. */
export async function listRequestableServers(
  db: Db,
  userId: string,
  organizationId: string,
  limit: number,
): Promise<RequestableServer[]> {
  const rows = await db
    .selectFrom('endpoint')
    .innerJoin('membership', 'membership.organization_id', 'endpoint.organization_id')
    .select(['endpoint.id', 'endpoint.name', 'endpoint.title', 'endpoint.description'])
    .where('endpoint.organization_id', '=', organizationId)
    .where('membership.person_id', '=', userId)
    .where('endpoint.is_requestable', '=', 1)
    .where('endpoint.disabled_at', 'is', null)
    .where((eb) => eb.not(noGroupKeepsOut(eb)))
    .orderBy('endpoint.name')
    .limit(limit)
    .execute();
  return rows.map(({ id, name, title, description }) => {
    return { id, name, title: title || name, description };
  });
}

function usable(eb: Parameters<typeof noGroupKeepsOut>[0]) {
  return eb.case().when(noGroupKeepsOut(eb)).then(eb.lit(1)).else(eb.lit(0)).end().as('is_usable');
}

function selectRequests(db: Db) {
  return db
    .selectFrom('access_request')
    .innerJoin('endpoint', 'endpoint.id', 'access_request.endpoint_id')
    .innerJoin('membership', (join) =>
      join
        .onRef('membership.person_id', '=', 'access_request.person_id')
        .onRef('membership.organization_id', '=', 'access_request.organization_id'),
    )
    .innerJoin('person', 'person.id', 'access_request.person_id')
    .selectAll('access_request')
    .select(['endpoint.name', 'endpoint.title', 'person.email']);
}
