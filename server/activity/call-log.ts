import { setTimeout as pause } from 'node:timers/promises';

import type { CallRepetitions, CallWrites } from '#db/calls';
import type { CallContents } from '#model/call-contents';
import type { CallRecord, EndedCall } from '#model/calls';
import { CallRows, type CallRowsPorts, shortened } from './call-rows.ts';
import type { ContentLog } from './content-log.ts';
import { MissingCalls } from './missing-calls.ts';

/** A killed process may lose a second of calls: half of it is this interval, the other half is for a slow write. */
const flushEveryMs = 500;
/** When this many calls wait, they are written immediately. Also the default number of rows of a transaction. */
const rowsAtOnce = 500;
const maxQueued = 20_000;
/** Unless the queue is full, a caller may always have this many calls in it. */
const leastShare = 100;
const refusalWindowMs = 60_000;
/** Different refusals of one caller that have rows of their own in a minute; the others share one row for each code. */
const maxRefusalKinds = 60;
const tellEveryMs = 60_000;

export interface CallLogPorts extends CallRowsPorts {
  readonly write: (writes: CallWrites) => Promise<void>;
  /** How many rows one transaction writes. Default: 500. */
  readonly rowsATransaction?: number | undefined;
  /** Called when writing fails. The rows are kept for the next attempt. */
  readonly failed: (error: unknown) => void;
  /** Stores arguments and results, once the rows of their calls are written. */
  readonly contents?: Pick<ContentLog, 'add' | 'flush'> | undefined;
  /** Called with the number of calls that were dropped since it was called last, at most once a minute. */
  readonly dropped?: ((count: number) => void) | undefined;
}

/** The contents that servers store of a call: the called server, and the collection through which it was called. */
type Contents = readonly CallContents[];

/** A call that waits to be written. */
interface Queued {
  readonly call: EndedCall;
  readonly contents: Contents;
  /** Set for a refusal, which may be repeated even after its row is written. */
  readonly refusal: Refusal | undefined;
}

/** A refusal of this minute. */
interface Refusal {
  times: number;
  /** The row and the number stored in it; `undefined` until the row is written. */
  row: CallRepetitions | undefined;
}

interface Beginning {
  readonly call: EndedCall;
  readonly resolve: (row: CallRecord) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Records calls off their path: it collects them and writes them twice a second, or sooner if many wait. When too
 * many wait, it drops and counts new calls of the callers with the most. Equal refusals of a minute are one row with their number.
 */
export class CallLog {
  readonly #ports: CallLogPorts;
  readonly #rowsATransaction: number;
  #queue: Queued[] = [];
  readonly #ended: CallRecord[] = [];
  /** Arguments and results of calls whose rows were written when they began. */
  readonly #endedContents = new Map<CallRecord, Contents>();
  readonly #beginning: Beginning[] = [];
  #isCommitting = false;
  /** How many calls wait, by their caller. */
  readonly #queuedOf = new Map<string, number>();
  readonly #missing: MissingCalls;
  readonly #refusals = new Map<string, Refusal>();
  readonly #refusalKinds = new Map<string, number>();
  #refusalsSinceMs = 0;
  readonly #repeated = new Set<Refusal>();
  readonly #rows: CallRows;
  readonly #timer: NodeJS.Timeout;
  #writing: Promise<void> = Promise.resolve();
  #isWriting = false;
  #dropped = 0;
  #toldDropped = 0;
  #toldAtMs = -Infinity;

  constructor(ports: CallLogPorts) {
    this.#ports = ports;
    this.#rowsATransaction = ports.rowsATransaction ?? rowsAtOnce;
    this.#rows = new CallRows(ports);
    this.#missing = new MissingCalls(ports);
    this.#timer = setInterval(() => void this.flush(), flushEveryMs).unref();
  }

  /** How many calls were dropped so far, because too many waited. */
  get dropped(): number {
    return this.#dropped;
  }

  /** How many calls wait to be written. */
  get pending(): number {
    return this.#queue.length + this.#ended.length + this.#beginning.length;
  }

  /**
   * Commits the row of a call that begins; its end is `unknown` until `note` gets the row and the end. All calls that begin in
   * one turn of the event loop, or while others are written, share a transaction.
   */
  begin(call: EndedCall): Promise<CallRecord> {
    return new Promise((resolve, reject) => {
      this.#beginning.push({ call: shortened(call), resolve, reject });
      if (this.#isCommitting) return;
      this.#isCommitting = true;
      queueMicrotask(() => void this.#commitAll());
    });
  }

  /** Never rejects. */
  async #commitAll(): Promise<void> {
    while (this.#beginning.length > 0) {
      const beginning = this.#beginning.splice(0, this.#rowsATransaction);
      try {
        await this.#rows.learnNames(beginning);
        const rows = beginning.map(({ call }) => this.#begunRow(call));
        const calls = rows.filter((row) => row !== undefined);
        await this.#write({ calls, isDurable: true });
        for (const [place, { resolve, reject }] of beginning.entries()) {
          const row = rows[place];
          if (row) resolve(row);
          else reject(new Error('the organization was deleted'));
        }
      } catch (error) {
        for (const { reject } of beginning) reject(error);
      }
    }
    this.#isCommitting = false;
  }

  #begunRow(call: EndedCall): CallRecord | undefined {
    const row = this.#rows.of(call, 1);
    return row && { ...row, durationMs: undefined, end: 'unknown' };
  }

  /** Records a call, or the end of one that began. Neither waits nor throws. */
  note(ended: EndedCall, begun?: CallRecord, contents: Contents = []): void {
    if (begun) {
      const { callId = begun.callId, durationMs, account, end, error, status, bytesOut } = ended;
      if (this.#ended.length >= maxQueued) {
        // The end of the call stays `unknown`.
        letGo(contents);
        this.#dropped += 1;
        this.#missing.addEnd(begun.organizationId);
        return;
      }
      const row = { ...begun, callId, durationMs, account, end, error, status, bytesOut };
      this.#ended.push(row);
      if (contents.length > 0) this.#endedContents.set(row, contents);
      if (this.#ended.length >= rowsAtOnce && !this.#isWriting) void this.flush();
      return;
    }
    const call = shortened(ended);
    if (call.end === 'refused') {
      letGo(contents);
      this.#noteRefusal(call);
    } else this.#add({ call, contents, refusal: undefined });
    if (this.#queue.length >= rowsAtOnce && !this.#isWriting) void this.flush();
  }

  /** Queues a call, or drops it. @returns whether there was room for it */
  #add(queued: Queued): boolean {
    const caller = callerOf(queued.call);
    const own = this.#queuedOf.get(caller) ?? 0;
    if (!this.#hasRoom(own)) {
      letGo(queued.contents);
      this.#dropped += 1;
      this.#missing.add(queued.call.endpoint.organization);
      return false;
    }
    this.#queue.push(queued);
    this.#queuedOf.set(caller, own + 1);
    return true;
  }

  /**
   * Half of the queue is for the calls that come first; of the rest each waiting caller has an equal share. `own` is how many calls of
   * the caller wait.
   */
  #hasRoom(own: number): boolean {
    const { length } = this.#queue;
    if (length >= maxQueued) return false;
    if (length < maxQueued / 2) return true;
    return own < Math.max(leastShare, maxQueued / (this.#queuedOf.size + 1));
  }

  /** Counts a refusal with the equal ones of this minute. Beyond `maxRefusalKinds`, refusals of a caller differ only by endpoint and code. */
  #noteRefusal(call: EndedCall): void {
    const nowMs = this.#ports.nowMs();
    if (nowMs - this.#refusalsSinceMs >= refusalWindowMs) {
      this.#refusalsSinceMs = nowMs;
      this.#refusals.clear();
      this.#refusalKinds.clear();
    }
    const { credential, userId, endpoint, error, method, subject } = call;
    const common = [credential.id, userId, endpoint.id, error];
    const whole = JSON.stringify([...common, method, subject]);
    const caller = callerOf(call);
    const kinds = this.#refusalKinds.get(caller) ?? 0;
    const isMore = kinds >= maxRefusalKinds && !this.#refusals.has(whole);
    const key = isMore ? JSON.stringify(common) : whole;
    const known = this.#refusals.get(key);
    if (known) {
      known.times += 1;
      if (known.row) this.#repeated.add(known);
      return;
    }
    const one = isMore ? { ...call, method: undefined, subject: undefined } : call;
    const refusal: Refusal = { times: 1, row: undefined };
    if (!this.#add({ call: one, contents: [], refusal })) return;
    this.#refusals.set(key, refusal);
    this.#refusalKinds.set(caller, kinds + 1);
  }

  /** Writes everything that waits now. Never rejects. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#writeAll());
    return this.#writing;
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    this.#tellDropped();
    try {
      // Refusals that are repeated meanwhile wait for the next flush, because they may arrive without a pause.
      await this.#writeRepeated();
      // Calls that end meanwhile wait for the next flush, too: under load there are always some, and transactions would get small.
      const gaps = this.#missing.size > 0 ? 1 : 0;
      const waiting = Math.max(this.#queue.length, this.#ended.length, gaps);
      for (let written = 0; written < waiting; written += this.#rowsATransaction) {
        await this.#writeSome();
        // Calls that arrived meanwhile come first.
        await pause(0);
      }
      await this.#ports.contents?.flush();
    } catch (error) {
      this.#ports.failed(error);
    } finally {
      this.#isWriting = false;
    }
  }

  #tellDropped(): void {
    const nowMs = this.#ports.nowMs();
    if (this.#dropped === this.#toldDropped || nowMs - this.#toldAtMs < tellEveryMs) return;
    this.#ports.dropped?.(this.#dropped - this.#toldDropped);
    this.#toldDropped = this.#dropped;
    this.#toldAtMs = nowMs;
  }

  async #writeRepeated(): Promise<void> {
    const repeated = [...this.#repeated].slice(0, this.#rowsATransaction);
    if (repeated.length === 0) return;
    // A refusal that is repeated meanwhile is added again.
    for (const one of repeated) this.#repeated.delete(one);
    try {
      await this.#write({
        repeated: repeated.flatMap(({ row, times }) => (row ? [{ ...row, times }] : [])),
      });
    } catch (error) {
      for (const one of repeated) this.#repeated.add(one);
      throw error;
    }
  }

  async #writeSome(): Promise<void> {
    const waiting = this.#queue.slice(0, this.#rowsATransaction);
    await this.#rows.learnNames(waiting);
    const rows = waiting.map(({ call, refusal }) => this.#rows.of(call, refusal?.times ?? 1));
    const ended = this.#ended.slice(0, this.#rowsATransaction);
    const missing = this.#missing.size > 0 ? await this.#missing.take() : undefined;
    const calls = rows.filter((row) => row !== undefined);
    await this.#write({ calls, ended, gaps: missing?.gaps ?? [] });
    missing?.written();
    this.#ended.splice(0, ended.length);
    this.#queue.splice(0, waiting.length);
    for (const [place, queued] of waiting.entries()) this.#isWritten(queued, rows[place]);
    this.#passContents(ended);
  }

  /** There is no row if the organization was deleted meanwhile. */
  #isWritten({ call, contents, refusal }: Queued, row: CallRecord | undefined): void {
    this.#leaves(callerOf(call));
    if (!row) return letGo(contents);
    for (const one of contents) this.#ports.contents?.add(row, one);
    if (!refusal) return;
    const { organizationId, id, times } = row;
    refusal.row = { organizationId, id, times };
    if (refusal.times > times) this.#repeated.add(refusal);
  }

  /** Passes on the contents of calls that ended, and whose rows were written when they began. */
  #passContents(ended: readonly CallRecord[]): void {
    if (this.#endedContents.size === 0) return;
    for (const record of ended) {
      for (const one of this.#endedContents.get(record) ?? []) {
        this.#ports.contents?.add(record, one);
      }
      this.#endedContents.delete(record);
    }
  }

  async #write(writes: Partial<CallWrites>): Promise<void> {
    const { calls = [], ended = [], repeated = [], gaps = [], isDurable = false } = writes;
    await this.#ports.write({ calls, repeated, ended, gaps, isDurable });
  }

  #leaves(caller: string): void {
    const left = (this.#queuedOf.get(caller) ?? 0) - 1;
    if (left > 0) this.#queuedOf.set(caller, left);
    else this.#queuedOf.delete(caller);
  }

  /** Resolves when everything is written. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
    // Writes the calls that ended during the first flush.
    await this.flush();
  }
}

function letGo(contents: Contents): void {
  for (const one of contents) one.letGo();
}

/** Identifies the caller. Many people of many organizations may use the same client. */
function callerOf({ credential: { id }, userId }: EndedCall): string {
  return userId === undefined ? id : `${id} ${userId}`;
}
