import { CallIndexing } from '#server/activity/call-indexing';
import { CallLog } from '#server/activity/call-log';
import { writeCalls } from '#server/db/calls';
import { findCallNames } from '#server/db/subject-names';
import type { Db } from '#server/db/transaction';
import type { EndedCall } from '#server/model/calls';

/** A successful call of `acme/library` through the client `client_claude`; `but` changes some members. */
export function madeCall(but: Partial<EndedCall> = {}): EndedCall {
  return {
    callId: undefined,
    startedAtMs: 1_800_000_000_000,
    durationMs: 12,
    requestId: 'r1',
    traceId: undefined,
    era: 'modern',
    endpoint: { id: 'ep_library', organization: 'acme', name: 'library' },
    target: { id: 'target_library', name: 'library' },
    credential: { type: 'client', id: 'client_claude' },
    userId: undefined,
    application: undefined,
    address: '192.0.2.1',
    account: 'none',
    method: 'tools/call',
    subject: 'search',
    end: 'ok',
    error: undefined,
    status: 200,
    bytesIn: 100,
    bytesOut: 200,
    ...but,
  };
}

/**
 * Writes calls as the server does, one after the other; each starts at `nowMs` unless it says otherwise. The organizations must
 * exist.
 */
export async function recordCalls(
  db: Db,
  nowMs: number,
  calls: readonly Partial<EndedCall>[],
): Promise<void> {
  const log = new CallLog({
    write: (writes) => writeCalls(db, writes),
    namesOf: (kind, ids) => findCallNames(db, kind, ids),
    node: 'node-1',
    nowMs: () => nowMs,
    failed: (error) => {
      throw error;
    },
  });
  for (const call of calls) log.note(madeCall({ startedAtMs: nowMs, ...call }));
  await log.close();
}

/** Indexes the calls that are over by `nowMs`, as the server does. */
export async function indexCalls(db: Db, nowMs: number): Promise<void> {
  const failed = (error: unknown) => {
    throw error;
  };
  const indexing = new CallIndexing({ db, nowMs: () => nowMs, failed, commitMs: 0 });
  await indexing.run();
  await indexing.close();
}
