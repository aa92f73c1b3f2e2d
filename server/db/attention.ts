import { sql } from 'kysely';

import { recordedMethods } from '#model/calls';
import type { EpochSeconds } from '#model/clock';
import { emailKey } from '#model/email';
import type { Role } from '#model/roles';
import { isAuthorEntitled, membersAmong } from './invitations.ts';
import { readRole } from './people.ts';
import type { Db } from './transaction.ts';

// Queries for what waits for an administrator, one for each kind. Each returns at most `limit` rows of one organization, mostly by urgency.

/** The parameters that all queries take. */
export interface AttentionSpan {
  readonly organizationId: string;
  readonly now: EpochSeconds;
  readonly limit: number;
}

/** A server, with the names that sentences use for it. */
interface Named {
  readonly id: string;
  readonly name: string;
  /** Empty if it has none. */
  readonly title: string;
}

/** A server with many failed calls or requests in the last hour. */
export interface FailingServer extends Named {
  /** The start of the time in which they are counted. */
  readonly since: EpochSeconds;
  /** `calls`: the requests with a method in `recordedMethods`; `requests`: all requests, including lists. */
  readonly counted: 'calls' | 'requests';
  readonly total: number;
  readonly failed: number;
}

const failingSeconds = 3600;
const minuteSeconds = 60;
const fewestFailed = 3;

/**
 * Servers where at least three, and at least a quarter, of the calls in the last hour failed, or else of all requests. Refused calls
 * and requests are left out, because they are the caller's failures.
 */
export async function listFailingServers(
  db: Db,
  { organizationId, now, limit }: AttentionSpan,
): Promise<FailingServer[]> {
  const since = now - (now % minuteSeconds) - failingSeconds + minuteSeconds;
  const isCall = sql`subject in (${sql.join([...recordedMethods])})`;
  const { rows } = await sql<
    Named & Record<'calls' | 'failed_calls' | 'requests' | 'failed_requests', number | string>
  >`select e.id, e.name, e.title, s.calls, s.failed_calls, s.requests, s.failed_requests
    from (
      select endpoint_id, sum(calls - refused) as requests, sum(tool_errors + upstream_errors) as failed_requests,
        sum(case when ${isCall} then calls - refused else 0 end) as calls,
        sum(case when ${isCall} then tool_errors + upstream_errors else 0 end) as failed_calls
      from usage_rollup
      where organization_id = ${organizationId} and kind = 'method' and period = 'minute' and at >= ${since} and at <= ${now}
      group by endpoint_id
    ) s join endpoint e on e.id = s.endpoint_id
    where e.disabled_at is null and (
      (s.failed_calls >= ${fewestFailed} and 4 * s.failed_calls >= s.calls)
      or (s.failed_requests >= ${fewestFailed} and 4 * s.failed_requests >= s.requests))
    order by s.failed_calls desc, s.failed_requests desc, e.name limit ${limit}`.execute(db);
  return rows.map((row) => {
    const { id, name, title } = row;
    const [calls, failedCalls] = [Number(row.calls), Number(row.failed_calls)];
    const ofCalls = { counted: 'calls', total: calls, failed: failedCalls } as const;
    const [requests, failedRequests] = [Number(row.requests), Number(row.failed_requests)];
    const ofRequests = { counted: 'requests', total: requests, failed: failedRequests } as const;
    const isOfCalls = failedCalls >= fewestFailed && 4 * failedCalls >= calls;
    return Object.assign({ id, name, title, since }, isOfCalls ? ofCalls : ofRequests);
  });
}

/**
 * Unrevoked keys of servers and agents, and secrets of clients, that expire after `since` and not after `until`. Leaves out keys that a newer
 * key replaces, expired keys that no one ever used, and secrets whose client has another secret that is valid beyond `until`.
 */
export async function listExpiringCredentials(
  db: Db,
  {
    organizationId,
    limit,
    since,
    until,
    now,
  }: AttentionSpan & { readonly since: EpochSeconds; readonly until: EpochSeconds },
) {
  const { rows } = await sql<{
    kind: 'key' | 'secret';
    id: string;
    /** The client of a secret. */
    client_id: string | null;
    name: string;
    server: string | null;
    agent: string | null;
    expires_at: number;
  }>`select 'key' as kind, k.id as id, null as client_id, k.name as name, e.name as server, a.name as agent, k.expires_at as expires_at
      from api_key k left join endpoint e on e.id = k.endpoint_id left join agent a on a.id = k.agent_id
      where k.organization_id = ${organizationId} and k.revoked_at is null
        and k.expires_at > ${since} and k.expires_at <= ${until}
        and (k.expires_at > ${now} or k.last_used_at is not null)
        and not exists (select 1 from api_key n where n.replaces_id = k.id and n.revoked_at is null)
    union all
    select 'secret' as kind, s.id as id, c.id as client_id, c.name as name, e.name as server, null as agent, s.expires_at as expires_at
      from client_secret s join oauth_client c on c.id = s.client_id left join endpoint e on e.id = c.endpoint_id
      where c.organization_id = ${organizationId} and c.revoked_at is null and s.revoked_at is null and s.id is not null
        and s.expires_at > ${since} and s.expires_at <= ${until}
        and not exists (select 1 from client_secret n where n.client_id = c.id and n.revoked_at is null
          and (n.expires_at is null or n.expires_at > ${until}))
    order by expires_at, id limit ${limit}`.execute(db);
  return rows.map(({ kind, id, name, server, agent, ...row }) => {
    const { client_id: clientId, expires_at: expiresAt } = row;
    return { kind, id, clientId, name, server, agent, expiresAt } as const;
  });
}

/** Active server keys that were not created after `before`, and that no newer key replaces. */
export async function listOldKeys(
  db: Db,
  { organizationId, limit, before, now }: AttentionSpan & { readonly before: EpochSeconds },
) {
  return db
    .selectFrom('api_key as k')
    .innerJoin('endpoint as e', 'e.id', 'k.endpoint_id')
    .select(['k.id', 'k.name', 'e.name as server', 'k.created_at as createdAt'])
    .where('k.organization_id', '=', organizationId)
    .where('k.revoked_at', 'is', null)
    .where('k.created_at', '<=', before)
    .where((where) =>
      where.or([where('k.expires_at', 'is', null), where('k.expires_at', '>', now)]),
    )
    .where((where) =>
      where.not(
        where.exists(
          where
            .selectFrom('api_key as n')
            .select('n.id')
            .whereRef('n.replaces_id', '=', 'k.id')
            .where('n.revoked_at', 'is', null),
        ),
      ),
    )
    .orderBy('k.created_at')
    .orderBy('k.id')
    .limit(limit)
    .execute();
}

/** An invitation that expired. */
interface ExpiredInvitation {
  readonly id: string;
  /** Null if it was for no address. */
  readonly email: string | null;
  readonly note: string;
  readonly role: Role;
  readonly expiresAt: EpochSeconds;
}

/** How many expired invitations are read at once. */
const invitationsAtOnce = 100;

/**
 * Invitations that expired after `since`, except for addresses that a member has, or that another valid invitation is for. Like the page of
 * invitations, leaves out invitations whose author could no longer create them.
 */
export async function listExpiredInvitations(
  db: Db,
  { organizationId, limit, since, now }: AttentionSpan & { readonly since: EpochSeconds },
): Promise<ExpiredInvitation[]> {
  const invitations = db
    .selectFrom('invitation')
    .where('organization_id', '=', organizationId)
    .where(isAuthorEntitled);
  const expired = invitations
    .select(['id', 'email', 'note', 'role', 'expires_at'])
    .where('expires_at', '>', since)
    .where('expires_at', '<=', now)
    .orderBy('expires_at', 'desc')
    .orderBy('id')
    .limit(invitationsAtOnce);
  const valid = await invitations.select('email').where('expires_at', '>', now).execute();
  const invited = new Set(keysOf(valid));
  const found: ExpiredInvitation[] = [];
  for (let from = 0; found.length < limit; from += invitationsAtOnce) {
    const rows = await expired.offset(from).execute();
    const members = await membersAmong(db, organizationId, keysOf(rows));
    for (const { role, expires_at: expiresAt, ...row } of rows) {
      const isDone = keysOf([row]).some((key) => invited.has(key) || members.has(key));
      if (!isDone) found.push({ ...row, role: readRole(role), expiresAt });
    }
    if (rows.length < invitationsAtOnce) break;
  }
  return found.slice(0, limit);
}

/** The addresses of invitations as `emailKey` makes them. SQL cannot compare them, because `lower()` of SQLite changes only ASCII letters. */
function keysOf(invitations: readonly { readonly email: string | null }[]): string[] {
  return invitations.flatMap(({ email }) => (email === null ? [] : [emailKey(email)]));
}

/** Upstream accounts of members that no longer work, because the authorization server refused to renew them, each with its server. */
export async function listEndedAccounts(db: Db, { organizationId, limit }: AttentionSpan) {
  const rows = await db
    .selectFrom('upstream_connection as u')
    .innerJoin('target', 'target.upstream_access_id', 'u.access_id')
    .innerJoin('endpoint as e', 'e.id', 'target.endpoint_id')
    .innerJoin('person', 'person.id', 'u.person_id')
    .select(['e.id', 'e.name', 'e.title', 'person.id as userId', 'person.email'])
    .select('u.failed_at')
    .where('e.organization_id', '=', organizationId)
    .where('e.disabled_at', 'is', null)
    .where('u.organization_id', '=', organizationId)
    .where('u.failed_at', 'is not', null)
    .orderBy('u.failed_at', 'desc')
    .orderBy('u.id')
    .limit(limit)
    .execute();
  return rows.map(({ id, name, title, userId, email, failed_at: failedAt }) => {
    return { id, name, title, userId, email, failedAt: failedAt ?? 0 } as const;
  });
}

/** Servers whose upstream refused the current values of their headers and accepted the previous ones. */
export async function listRefusedHeaders(db: Db, { organizationId, limit }: AttentionSpan) {
  const rows = await db
    .selectFrom('target')
    .innerJoin('endpoint as e', 'e.id', 'target.endpoint_id')
    .select(['e.id', 'e.name', 'e.title', 'target.upstream_headers_refused_at as refused_at'])
    .where('e.organization_id', '=', organizationId)
    .where('e.disabled_at', 'is', null)
    .where('target.upstream_headers_refused_at', 'is not', null)
    .orderBy('target.upstream_headers_refused_at', 'desc')
    .orderBy('e.name')
    .limit(limit)
    .execute();
  return rows.map(({ id, name, title, refused_at: refusedAt }) => {
    return { id, name, title, refusedAt: refusedAt ?? 0 } as const;
  });
}

/** Agents that are not connected although enabled servers need them. */
export async function listAgentsAway(db: Db, { organizationId, limit, now }: AttentionSpan) {
  const { rows } = await sql<{
    id: string;
    name: string;
    /** When one of its keys was last used; null if it never connected. */
    last_used_at: number | null;
    servers: number | string;
  }>`select a.id, a.name, (select max(k.last_used_at) from api_key k where k.agent_id = a.id) as last_used_at,
      count(e.id) as servers
    from agent a join target t on t.agent_id = a.id join endpoint e on e.id = t.endpoint_id
    where a.organization_id = ${organizationId} and a.revoked_at is null and a.suspended_at is null
      and (a.online_until is null or a.online_until <= ${now}) and e.disabled_at is null
    group by a.id, a.name order by servers desc, a.name limit ${limit}`.execute(db);
  return rows.map(({ id, name, last_used_at: lastUsedAt, servers }) => {
    return { id, name, lastUsedAt, servers: Number(servers) } as const;
  });
}

/** People who left, each with the number of keys, clients and agents that have needed an owner since then. */
export async function listFormerOwners(db: Db, { organizationId, limit }: AttentionSpan) {
  const left = (table: 'api_key' | 'oauth_client' | 'agent') =>
    sql`select owner_id, ownerless_at from ${sql.table(table)}
      where organization_id = ${organizationId} and ownerless_at is not null and revoked_at is null`;
  const { rows } = await sql<{
    owner_id: string;
    /** Null once the account is deleted. */
    email: string | null;
    since: number;
    count: number | string;
  }>`select found.owner_id, person.email, min(found.ownerless_at) as since, count(*) as count
    from (${left('api_key')} union all ${left('oauth_client')} union all ${left('agent')}) found
      left join person on person.id = found.owner_id
    group by found.owner_id, person.email order by since, found.owner_id limit ${limit}`.execute(
    db,
  );
  return rows.map(({ owner_id: userId, email, since, count }) => {
    return { userId, email, since, count: Number(count) } as const;
  });
}

/** Addresses for which mail was refused after `since`, and to which none was sent later. */
export async function listUndeliverable(
  db: Db,
  { organizationId, limit, since }: AttentionSpan & { readonly since: EpochSeconds },
) {
  const { rows } = await sql<{
    recipient: string;
    refused_at: number;
    count: number | string;
  }>`select m.recipient, max(m.ended_at) as refused_at, count(*) as count from mail m
    where m.organization_id = ${organizationId} and m.status = 'refused' and m.ended_at > ${since}
      and not exists (select 1 from mail later where later.organization_id = m.organization_id
        and later.recipient = m.recipient and later.status = 'sent' and later.ended_at >= m.ended_at)
    group by m.recipient order by refused_at desc, m.recipient limit ${limit}`.execute(db);
  return rows.map(({ recipient, refused_at: refusedAt, count }) => {
    return { recipient, refusedAt, count: Number(count) } as const;
  });
}

/** Webhooks that get no events: they have been failing since `before` or longer, or were disabled because they failed. Ordered by id. */
export async function listFailingWebhooks(
  db: Db,
  { organizationId, limit, before }: AttentionSpan & { readonly before: EpochSeconds },
) {
  const rows = await db
    .selectFrom('webhook')
    .select(['id', 'url', 'failing_since', 'disabled_at'])
    .where('organization_id', '=', organizationId)
    .where((where) =>
      where.or([
        where('disabled_because', 'in', ['gone', 'failing']),
        where.and([where('disabled_at', 'is', null), where('failing_since', '<=', before)]),
      ]),
    )
    .orderBy('id')
    .limit(limit)
    .execute();
  return rows.map(({ id, url, failing_since: failing, disabled_at: disabled }) => {
    return { id, url, since: failing ?? disabled ?? 0, isDisabled: disabled !== null } as const;
  });
}
