import { sql } from 'kysely';

import { pseudonymId, pseudonymName } from '#model/calls';
import { callQuarterOf, writtenAtMs } from './calls.ts';
import type { Schema } from './schema.ts';
import { quickTransaction, type Db } from './transaction.ts';

// Replacing a person by a pseudonym in recorded calls. Requests wait in `call_pseudonym`, because rows of other processes may still
// arrive; `activity/pseudonyms.ts` works on them.

/** A person whose calls before a time get a pseudonym. */
export type PseudonymRequest = ReturnType<typeof readRequest>;

function readRequest(row: Schema['call_pseudonym']) {
  return {
    organizationId: row.organization_id,
    personId: row.person_id,
    /** What distinguishes the pseudonym from others: twelve letters. */
    pseudonym: row.pseudonym,
    requestedAtMs: row.requested_at_ms,
    /** How often all calls were gone through. */
    rounds: row.rounds,
  } as const;
}

/** Requests that a person gets this pseudonym. One that is not done yet begins again, and keeps its pseudonym. */
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

/** Notes that all calls were gone through. Without a time for the next round, the request is done. */
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

/** A part of an organization's calls that was gone through. */
export interface PseudonymStep {
  /** The last call of it; `undefined` after the last one. */
  readonly last: string | undefined;
  /** How many calls were changed. */
  readonly changed: number;
}

/**
 * Goes through the calls after `after`, at most `limit`: those of the person that started before the request get the pseudonym, lose
 * the IP address and the device, and are no longer found by the person. Their arguments and results, which may name the person, are deleted, also
 * those that were stored after an earlier round.
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
 * Changes the subjects by which calls of these quarters are found. From the quarter of the request on, the person may have calls that
 * keep the name: such a quarter is indexed again.
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

/** The ids of people whose calls carry this address, as `emailKey` writes it; for accounts that were deleted. */
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
