import { setImmediate as afterOtherWork } from 'node:timers/promises';

import { type Selectable, sql } from 'kysely';

import { callEnds, type CallRecord, credentialTypes, upstreamAccounts } from '#model/calls';
import type { EpochSeconds } from '#model/clock';
import { elementsOf } from './call-index.ts';
import { type CallSearch, isUp, matches, Pace, type Part, stepsOf } from './call-parts.ts';
import type { Schema } from './schema.ts';
import { type Db, isPostgres } from './transaction.ts';

export type { CallFilter, CallSearch } from './call-parts.ts';

// Finds recorded calls. A search reads in steps of at most a few thousand rows, and can stop after each step. `call-parts.ts` decides what it
// reads.

/** Calls that a search found, newest first. */
export interface FoundCalls {
  readonly calls: readonly CallRecord[];
  /** Whether there may be more calls after the last one that was found, in the direction of the search. */
  readonly hasMore: boolean;
  /** Set if the search stopped before the page was full: continue from here. Everything before it, in the direction of the search, is searched. */
  readonly stoppedAt?: string | undefined;
}

const settledAfterMs = 3000;

/** The watermark of a search at this time: later rows may be missing, because other processes may still be writing them. */
export function watermarkAt(now: EpochSeconds): number {
  return now * 1000 - settledAfterMs;
}

const defaultBudgetMs = 1500;

/** The call with this id, in this organization only. */
export async function findCall(
  db: Db,
  organizationId: string,
  id: string,
): Promise<CallRecord | undefined> {
  const row = await db
    .selectFrom('call_record')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .executeTakeFirst();
  return row && readCall(row);
}

/** Searches calls, from the newest one (or from the oldest one for `newer`), until the page is full or the search must stop. */
export async function searchCalls(db: Db, search: CallSearch): Promise<FoundCalls> {
  const { limit, signal, budgetMs = defaultBudgetMs } = search;
  const endAt = performance.now() + budgetMs;
  const found: CallRecord[] = [];
  let hasRead = false;
  let stoppedAt: string | undefined;
  const pace = new Pace(db);
  for await (const step of stepsOf(db, search, pace)) {
    if (hasRead && (signal?.aborted === true || performance.now() > endAt)) {
      stoppedAt = step.cursor;
      break;
    }
    const begunMs = performance.now();
    const rows = await readParts(db, search, step.parts, limit + 1 - found.length);
    pace.tookForRows(performance.now() - begunMs);
    found.push(...rows.map(readCall));
    hasRead = true;
    if (found.length > limit) break;
    // Lets other work proceed, because SQLite answers within the same turn of the event loop.
    await afterOtherWork();
  }
  const calls = found.slice(0, limit);
  return {
    calls: isUp(search) ? calls.toReversed() : calls,
    hasMore: found.length > limit || stoppedAt !== undefined,
    ...(stoppedAt !== undefined && { stoppedAt }),
  };
}

type CallRow = Selectable<Schema['call_record']>;

/** The rows of these parts that the filter selects, at most `limit`, in the order of the search. */
async function readParts(
  db: Db,
  search: CallSearch,
  parts: readonly Part[],
  limit: number,
): Promise<readonly CallRow[]> {
  const { organizationId, filter } = search;
  const [part] = parts;
  if (!part) return [];
  const order = isUp(search) ? ('asc' as const) : ('desc' as const);
  if (parts.length === 1) {
    return db
      .selectFrom('call_record')
      .selectAll()
      .where('organization_id', '=', organizationId)
      .where('id', '>=', part.low)
      .where('id', '<', part.high)
      .where(matches(db, filter))
      .orderBy('id', order)
      .limit(limit)
      .execute();
  }
  const given = elementsOf(
    db,
    parts.map(({ low, high }) => [low, high]),
  );
  const inOrder = sql`order by call_record.id ${sql.raw(order)} limit ${limit}`;
  const ofPart = sql`call_record.organization_id = ${organizationId} and call_record.id >= given.value ->> 0
    and call_record.id < given.value ->> 1 and ${matches(db, filter)}`;
  // Both queries read the parts one after the other, each by the primary key.
  const query = isPostgres(db)
    ? sql<CallRow>`select call_record.* from ${given} cross join lateral
        (select * from call_record where ${ofPart} ${inOrder}) as call_record ${inOrder}`
    : sql<CallRow>`select call_record.* from ${given} cross join call_record where ${ofPart} ${inOrder}`;
  return (await query.execute(db)).rows;
}

function readCall(row: Selectable<Schema['call_record']>): CallRecord {
  return {
    organizationId: row.organization_id,
    id: row.id,
    callId: row.call_id,
    startedAtMs: row.started_at_ms,
    durationMs: row.duration_ms ?? undefined,
    node: row.node,
    requestId: row.request_id,
    traceId: row.trace_id ?? undefined,
    era: row.era === 'modern' ? 'modern' : 'legacy',
    person: row.person_id === null ? undefined : { id: row.person_id, name: row.person_name ?? '' },
    credential: {
      type: credentialTypes.find((known) => known === row.credential_type) ?? 'unknown',
      id: row.credential_id,
      name: row.credential_name,
    },
    application:
      row.application === null
        ? undefined
        : {
            text: row.application,
            source: row.application_source === 'client_info' ? 'client_info' : 'user_agent',
          },
    address: row.address ?? undefined,
    endpoint: { id: row.endpoint_id, name: row.endpoint_name },
    target: { id: row.target_id, name: row.target_name },
    account: upstreamAccounts.find((known) => known === row.account) ?? 'none',
    method: row.method ?? undefined,
    subject: row.subject ?? undefined,
    end: callEnds.find((known) => known === row.outcome) ?? 'unknown',
    error: row.error ?? undefined,
    status: row.status ?? undefined,
    bytesIn: row.bytes_in,
    bytesOut: row.bytes_out,
    times: row.times,
    ...(row.device_id !== null && { deviceId: row.device_id }),
  };
}
