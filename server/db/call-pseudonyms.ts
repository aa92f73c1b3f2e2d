import { sql } from 'kysely';

import { pseudonymId, pseudonymName } from '#model/calls';
import { callQuarterOf, writtenAtMs } from './calls.ts';
import type { Schema } from './schema.ts';
import { quickTransaction, type Db } from './transaction.ts';

// Replaces a person with a pseudonym in recorded calls. Requests wait in `call_pseudonym`, because rows of other processes may still
// arrive; `activity/pseudonyms.ts` carries out the requests.

/** A request to give the calls of a person before a time a pseudonym. */
export type PseudonymRequest = ReturnType<typeof readRequest>;

function readRequest(row: Schema['call_pseudonym']) {
  return {
    organizationId: row.organization_id,
    personId: row.person_id,
    /** Twelve letters that distinguish the pseudonym from others. */
    pseudonym: row.pseudonym,
    requestedAtMs: row.requested_at_ms,
    /** How many rounds through all calls were completed. */
    rounds: row.rounds,
  } as const;
}

/** Requests this pseudonym for a person. If an earlier request is not done yet, it begins again and keeps its pseudonym. */
export async function requestPseudonym(
  db: Db,
  { organizationId, personId, pseudonym, requestedAtMs }: Omit<PseudonymRequest, 'rounds'>,
): Promise<PseudonymRequest> {
  const row = await db
    .insertInto('call_pseudonym')
    .values({
      organization_id: organizationId,
      person_id: personId,
      pseudonym,
      requested_at_ms: requestedAtMs,
      rounds: 0,
      due_at_ms: requestedAtMs,
    })
    .onConflict((conflict) =>
      conflict.columns(['organization_id', 'person_id']).doUpdateSet({
        requested_at_ms: requestedAtMs,
        rounds: 0,
        due_at_ms: requestedAtMs,
      }),
    )
    .returning('pseudonym')
    .executeTakeFirstOrThrow();
  return { organizationId, personId, pseudonym: row.pseudonym, requestedAtMs, rounds: 0 };
}

/** The requests that are due, the oldest first. */
export async function duePseudonyms(db: Db, nowMs: number): Promise<readonly PseudonymRequest[]> {
  const rows = await db
    .selectFrom('call_pseudonym')
    .selectAll()
    .where('due_at_ms', '<=', nowMs)
    .orderBy('requested_at_ms')
    .execute();
  return rows.map(readRequest);
}

/** Whether anyone's calls in this organization are getting a pseudonym. */
export async function hasPseudonymRequests(db: Db, organizationId: string): Promise<boolean> {
  const request = await db
    .selectFrom('call_pseudonym')
    .select('person_id')
    .where('organization_id', '=', organizationId)
    .limit(1)
    .executeTakeFirst();
  return request !== undefined;
}

/** Ends a round through all calls. Without `nextAtMs`, the request is done. */
export async function endRound(
  db: Db,
  { organizationId, personId, requestedAtMs, rounds }: PseudonymRequest,
  nextAtMs: number | undefined,
): Promise<void> {
  if (nextAtMs === undefined) {
    await db
      .deleteFrom('call_pseudonym')
      .where('organization_id', '=', organizationId)
      .where('person_id', '=', personId)
      .where('requested_at_ms', '=', requestedAtMs)
      .execute();
    return;
  }
  await db
    .updateTable('call_pseudonym')
    .set({ rounds: rounds + 1, due_at_ms: nextAtMs })
    .where('organization_id', '=', organizationId)
    .where('person_id', '=', personId)
    .where('requested_at_ms', '=', requestedAtMs)
    .execute();
}

/** The result of going through a part of an organization's calls. */
export interface PseudonymStep {
  /** The id of the last call in the part; `undefined` if no calls follow. */
  readonly last: string | undefined;
  /** How many calls were changed. */
  readonly changed: number;
}

/**
 * Goes through at most `limit` calls after `after`. The person's calls that started before the request get the pseudonym, lose the IP
 * address and the device, and can no longer be found by the person. Their arguments and results, which may name the person, are deleted,
 * including those that were stored after an earlier round.
 */
export async function replaceInCalls(
  db: Db,
  request: PseudonymRequest,
  { after, limit }: { readonly after: string; readonly limit: number },
): Promise<PseudonymStep> {
  const { organizationId, personId, requestedAtMs } = request;
  const rows = await db
    .selectFrom('call_record')
    .select(['id', 'person_id', 'credential_id', 'target_id', 'started_at_ms'])
    .where('organization_id', '=', organizationId)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute();
  const last = rows.length < limit ? undefined : rows.at(-1)?.id;
  const id = pseudonymId(request);
  const own = rows.filter((row) => row.person_id === personId && row.started_at_ms < requestedAtMs);
  const earlier = rows.filter((row) => row.person_id === id);
  const all = [...own, ...earlier];
  if (all.length === 0) return { last, changed: 0 };
  await quickTransaction(db, async (tx) => {
    await renameCalls(
      tx,
      request,
      own.map((row) => row.id),
    );
    await deleteContents(tx, organizationId, all);
    await renameSubjects(tx, request, [
      ...new Set(all.map((row) => callQuarterOf(writtenAtMs(row.id)))),
    ]);
  });
  return { last, changed: own.length };
}

async function renameCalls(
  tx: Db,
  request: PseudonymRequest,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return;
  const [id, name] = [pseudonymId(request), pseudonymName(request)];
  const ifPerson = (value: string, column: 'credential_id' | 'credential_name') =>
    sql<string>`case when credential_type = 'person' then ${value} else ${sql.ref(column)} end`;
  await tx
    .updateTable('call_record')
    .set({
      person_id: id,
      person_name: name,
      credential_id: ifPerson(id, 'credential_id'),
      credential_name: ifPerson(name, 'credential_name'),
      address: null,
      device_id: null,
    })
    .where('organization_id', '=', request.organizationId)
    .where('id', 'in', ids)
    .execute();
}

async function deleteContents(
  tx: Db,
  organizationId: string,
  calls: readonly { readonly id: string; readonly target_id: string }[],
): Promise<void> {
  for (const targetId of new Set(calls.map((call) => call.target_id))) {
    const ids = calls.filter((call) => call.target_id === targetId).map(({ id }) => id);
    await tx
      .deleteFrom('call_content')
      .where('organization_id', '=', organizationId)
      .where('target_id', '=', targetId)
      .where('id', 'in', ids)
      .execute();
  }
}

/**
 * Changes the subjects by which calls of these quarters are found. From the quarter of the request on, the person may also
 * have calls that keep their name, so such a quarter is indexed again.
 */
async function renameSubjects(
  tx: Db,
  request: PseudonymRequest,
  quarters: readonly number[],
): Promise<void> {
  const { organizationId, personId, requestedAtMs } = request;
  const ofRequest = callQuarterOf(requestedAtMs);
  const kinds = ['person', 'credential'] as const;
  const earlier = quarters.filter((quarter) => quarter < ofRequest);
  const others = quarters.filter((quarter) => quarter >= ofRequest);
  if (earlier.length > 0) {
    await tx
      .insertInto('call_subject')
      .columns(['organization_id', 'quarter', 'kind', 'subject', 'seconds'])
      .expression((query) =>
        query
          .selectFrom('call_subject as old')
          .select([
            'old.organization_id',
            'old.quarter',
            'old.kind',
            sql<string>`cast(${pseudonymId(request)} as text)`.as('subject'),
            'old.seconds',
          ])
          .where('old.organization_id', '=', organizationId)
          .where('old.quarter', 'in', earlier)
          .where('old.kind', 'in', kinds)
          .where('old.subject', '=', personId),
      )
      .onConflict((conflict) => conflict.doNothing())
      .execute();
  }
  if (others.length > 0) {
    await tx
      .deleteFrom('call_quarter')
      .where('organization_id', '=', organizationId)
      .where('quarter', 'in', others)
      .execute();
  }
  await tx
    .deleteFrom('call_subject')
    .where('organization_id', '=', organizationId)
    .where('quarter', 'in', quarters)
    .where('kind', 'in', kinds)
    .where('subject', '=', personId)
    .execute();
}

/** The ids of people whose calls have this address, as `emailKey` writes it. Also finds people whose accounts were deleted. */
export async function findCallers(
  db: Db,
  organizationId: string,
  address: string,
): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('call_record')
    .select('person_id')
    .distinct()
    .where('organization_id', '=', organizationId)
    .where('person_id', 'is not', null)
    .where(sql<boolean>`lower(person_name) = ${address}`)
    .execute();
  return rows.flatMap(({ person_id: id }) => (id === null ? [] : [id]));
}
