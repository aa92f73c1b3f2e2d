import { CallLog } from '#activity/call-log';
import { CallIndexing } from '#activity/call-indexing';
import { CallOutput, type LineDestination } from '#activity/call-output';
import { CallRetention } from '#activity/call-retention';
import { ContentLog } from '#activity/content-log';
import { Pseudonyms } from '#activity/pseudonyms';
import { CountedRefusals } from '#audit/counted-refusals';
import { AuditRetention } from '#audit/retention';
import { insertAuditEvent } from '#db/audit';
import { findContentSettings, insertContents } from '#db/call-contents';
import { callsATransaction, writeCalls } from '#db/calls';
import { updateLastUses } from '#db/last-uses';
import { deleteOldRollups, listCountedNames, recordCalls } from '#db/rollups';
import { findListedTools } from '#db/definitions';
import { findCallNames, findOrganizationNames } from '#db/subject-names';
import type { Db } from '#db/transaction';
import { ContentMemory } from '#model/call-contents';
import type { MasterKey } from '#secrets/master-key';
import { CallMeter } from '#usage/call-meter';
import { UsageRecorder } from '#usage/last-uses';
import type { Closers } from './closers.ts';
import type { ServeOptions } from './serve-options.ts';

type RecordOptions = Pick<ServeOptions, 'clock' | 'log' | 'auditRetentionDays' | 'callLog'> & {
  readonly isOwner: boolean;
};

/** Opens the background writers of last uses of credentials and of call counts. */
export async function openUsage(
  { clock, log, isOwner }: RecordOptions,
  db: Db,
  closers: Closers,
): Promise<{ readonly usage: UsageRecorder; readonly meter: CallMeter }> {
  const usage = new UsageRecorder(
    (uses) => updateLastUses(db, uses),
    (err) => log.error({ err }, 'last use not kept'),
  );
  closers.push(() => usage.close());
  const meter = new CallMeter(await listCountedNames(db), {
    record: (tallies) => recordCalls(db, tallies),
    listed: (tools) => findListedTools(db, tools),
    deleteOld: async (now) => (isOwner ? deleteOldRollups(db, now) : undefined),
    clock,
    failed: (err) => log.error({ err }, 'calls not counted yet'),
  });
  closers.push(() => meter.close());
  return { usage, meter };
}

/** The parts that record calls. */
export interface OpenActivity {
  readonly calls: CallLog;
  readonly contentMemory: ContentMemory;
  readonly output: CallOutput | undefined;
}

/** Opens the upkeep of recorded calls in the owner, and the record of calls unless the operator turned it off. */
export function openActivity(
  { clock, log, callLog, isOwner }: Pick<RecordOptions, 'clock' | 'log' | 'callLog' | 'isOwner'>,
  { db, masterKey: sealing }: { readonly db: Db; readonly masterKey: MasterKey },
  closers: Closers,
): OpenActivity | undefined {
  const indexing = isOwner ? openUpkeep({ clock, log }, db, closers) : undefined;
  if (!callLog || callLog.mode === 'off') return undefined;
  const nowMs = () => Date.now();
  const contentMemory = new ContentMemory();
  const contents = new ContentLog({
    memory: contentMemory,
    sealing,
    settingsOf: (targetIds) => findContentSettings(db, targetIds),
    write: (rows) => insertContents(db, rows),
    nowMs,
    failed: (err) => log.error({ err }, 'arguments and results not stored yet'),
    dropped: (count) =>
      log.warn({ count }, 'arguments or results not stored: too many waited to be written'),
  });
  const output = openCallOutput(callLog.output, { log, db }, closers);
  const calls = new CallLog({
    write: async (writes) => {
      await writeCalls(db, writes);
      indexing?.wrote(writes);
      await output?.add(writes);
    },
    rowsATransaction: callsATransaction(db),
    contents,
    namesOf: (kind, ids) => findCallNames(db, kind, ids),
    node: callLog.node,
    nowMs,
    failed: (err) => log.error({ err }, 'calls not recorded yet'),
    dropped: (count) => log.warn({ count }, 'calls not recorded: too many waited to be written'),
  });
  closers.push(() => calls.close());
  return { calls, contentMemory, output };
}

/** Opens the background work that deletes, indexes and pseudonymizes recorded calls. */
function openUpkeep(
  { clock, log }: Pick<RecordOptions, 'clock' | 'log'>,
  db: Db,
  closers: Closers,
): CallIndexing {
  const nowMs = () => Date.now();
  const failed = (what: string) => (err: unknown) => log.error({ err }, what);
  const retention = new CallRetention({ db, clock, failed: failed('old calls not deleted') });
  closers.push(() => retention.close());
  const indexing = new CallIndexing({ db, nowMs, failed: failed('calls not indexed yet') });
  closers.push(() => indexing.close());
  const pseudonyms = new Pseudonyms({ db, nowMs, failed: failed('people not pseudonymized yet') });
  closers.push(() => pseudonyms.close());
  return indexing;
}

/** Opens the output of recorded calls as lines of JSON, if the operator wants one. It closes after the record of calls. */
function openCallOutput(
  destination: LineDestination | undefined,
  { log, db }: Pick<RecordOptions, 'log'> & { readonly db: Db },
  closers: Closers,
): CallOutput | undefined {
  if (!destination) return undefined;
  const { name: output } = destination;
  const opened = new CallOutput({
    destination,
    organizationNames: (ids) => findOrganizationNames(db, ids),
    nowMs: () => Date.now(),
    failed: (reason, dropped) =>
      log.error({ output, reason, dropped }, 'calls not written to --call-log-output'),
    recovered: (dropped) =>
      log.warn({ output, dropped }, 'calls are written to --call-log-output again'),
  });
  closers.push(() => opened.close());
  return opened;
}

/** Opens the record of refusals, and the removal of old audit entries where the operator limits how long they are kept. */
export function openAudit(
  { clock, log, isOwner, auditRetentionDays: days }: RecordOptions,
  db: Db,
  closers: Closers,
): CountedRefusals {
  const refusals = new CountedRefusals({
    write: (event) => insertAuditEvent(db, event),
    clock,
    failed: refusalNotWritten(log),
  });
  closers.push(() => refusals.flush());
  if (days !== undefined && isOwner) {
    const failed = (err: unknown) => log.error({ err }, 'old entries of the audit log not removed');
    const retention = new AuditRetention({ db, clock, days, failed });
    closers.push(() => retention.close());
  }
  return refusals;
}

export function refusalNotWritten(log: ServeOptions['log']): (error: unknown) => void {
  return (err) => log.error({ err }, 'refusal not written down');
}
