import { setTimeout as pause } from 'node:timers/promises';

import { callPeriodOf, isFailed, newCallRecordId, periodKind, subjectsOf } from '#db/calls';
import type { CallPeriod, CallRepetitions, CallWrites } from '#db/calls';
import { redact } from '#log/redact';
import type { CallContents } from '#model/call-contents';
import type { CallRecord, EndedCall } from '#model/calls';
import { LimitedMap } from '#model/limited-map';
import type { ContentLog } from './content-log.ts';

/** Half of the second that a killed process may lose: the other half is for a write that takes long. */
const flushEveryMs = 500;
const rowsAtOnce = 500;
const maxQueued = 20_000;
/** A caller always has this much of the queue. */
const leastShare = 100;
const refusalWindowMs = 60_000;
/** Different refusals of one caller that have rows of their own in a minute; the others share one row for each code. */
const maxRefusalKinds = 60;
/** Subjects of one kind and organization that are written down for a period of five minutes. */
const maxSubjects = 2000;
const maxNames = 10_000;
const maxStoredTexts = 2000;
const namesValidMs = 10_000;
const tellEveryMs = 60_000;

/** The lengths to which texts that somebody outside chose are cut. */
const maxLengths = { name: 200, uri: 500, application: 200, method: 100, other: 200 };

/** The names of what calls mention. */
export type CallNames = (
  kind: 'organization' | 'key' | 'client' | 'person',
  ids: readonly string[],
) => Promise<ReadonlyMap<string, string>>;

export interface CallLogPorts {
  readonly write: (writes: CallWrites) => Promise<void>;
  /** Ids of organizations by name; names of keys and clients and addresses of people by id. */
  readonly namesOf: CallNames;
  /** The name of this process among those that share the database. */
  readonly node: string;
  readonly nowMs: () => number;
  /** Called when writing fails. The rows are kept for the next attempt. */
  readonly failed: (error: unknown) => void;
  /** Stores arguments and results, once the rows of their calls are written. */
  readonly contents?: Pick<ContentLog, 'add' | 'flush'> | undefined;
  /** Called with the number of calls that were dropped since it was called last, at most once a minute. */
  readonly dropped?: ((count: number) => void) | undefined;
}

/** A call that waits to be written, or a refusal that was written and may happen again. */
interface Queued {
  readonly call: EndedCall;
  readonly principal: string;
  readonly contents?: CallContents | undefined;
  times: number;
  /** The row, once it is written, with the number that it has. */
  row?: CallRepetitions;
}

interface Beginning {
  readonly call: EndedCall;
  readonly resolve: (row: CallRecord) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Records calls off their path: it collects them and writes them twice a second, or sooner if many wait. When more wait than it
 * may keep, it drops and counts those of the callers with the most. Equal refusals of a minute are one row with their number.
 */
export class CallLog {
  readonly #ports: CallLogPorts;
  #queue: Queued[] = [];
  readonly #ended: CallRecord[] = [];
  /** Arguments and results of calls whose rows were written when they began. */
  readonly #endedContents = new Map<CallRecord, CallContents>();
  readonly #beginning: Beginning[] = [];
  #isCommitting = false;
  readonly #queuedOf = new Map<string, number>();
  readonly #refusals = new Map<string, Queued>();
  readonly #refusalKinds = new Map<string, number>();
  #refusalsSinceMs = 0;
  readonly #repeated = new Set<Queued>();
  readonly #names = new LimitedMap<string, { readonly name: string; readonly untilMs: number }>(
    maxNames,
  );
  readonly #texts = new StoredTexts();
  readonly #known = new KnownPeriods();
  readonly #timer: NodeJS.Timeout;
  #writing: Promise<void> = Promise.resolve();
  #isWriting = false;
  #dropped = 0;
  #toldDropped = 0;
  #toldAtMs = -Infinity;

  constructor(ports: CallLogPorts) {
    this.#ports = ports;
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
   * Commits the row of a call that begins; its end is `unknown` until `note` gets the row and the end. All calls that begin
   * while others are written share a transaction.
   */
  begin(call: EndedCall): Promise<CallRecord> {
    return new Promise((resolve, reject) => {
      this.#beginning.push({ call: { ...shortened(call), end: 'unknown' }, resolve, reject });
      if (!this.#isCommitting) void this.#commitAll();
    });
  }

  /** Never rejects. */
  async #commitAll(): Promise<void> {
    this.#isCommitting = true;
    while (this.#beginning.length > 0) {
      const beginning = this.#beginning.splice(0, rowsAtOnce);
      try {
        await this.#learnNames(beginning.map(({ call }) => call));
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
    const row = this.#recordOf({ call, times: 1 });
    return row && { ...row, durationMs: undefined };
  }

  /** Records a call, or the end of one that began. Neither waits nor throws. */
  note(ended: EndedCall, begun?: CallRecord, contents?: CallContents): void {
    if (begun) {
      const { callId = begun.callId, durationMs, account, end, error, status, bytesOut } = ended;
      const row = { ...begun, callId, durationMs, account, end, error, status, bytesOut };
      this.#ended.push(row);
      if (contents) this.#endedContents.set(row, contents);
      if (this.#ended.length >= rowsAtOnce && !this.#isWriting) void this.flush();
      return;
    }
    const call = shortened(ended);
    const principal = `${call.credential.type}:${call.credential.id}`;
    if (call.end === 'refused') {
      contents?.letGo();
      this.#noteRefusal(call, principal);
    } else this.#add(call, principal, contents);
    if (this.#queue.length >= rowsAtOnce && !this.#isWriting) void this.flush();
  }

  /** `undefined` if there is no room for it. */
  #add(call: EndedCall, principal: string, contents?: CallContents): Queued | undefined {
    if (!this.#hasRoom(principal)) {
      contents?.letGo();
      this.#dropped += 1;
      return undefined;
    }
    const queued: Queued = { call, principal, contents, times: 1 };
    this.#queue.push(queued);
    this.#queuedOf.set(principal, (this.#queuedOf.get(principal) ?? 0) + 1);
    return queued;
  }

  /** Half of the queue is for whoever comes first; of the rest each waiting caller has an equal share. */
  #hasRoom(principal: string): boolean {
    const { length } = this.#queue;
    if (length >= maxQueued) return false;
    if (length < maxQueued / 2) return true;
    const share = Math.max(leastShare, maxQueued / (this.#queuedOf.size + 1));
    return (this.#queuedOf.get(principal) ?? 0) < share;
  }

  /** Counts a refusal with the equal ones of this minute. Beyond a number of kinds, all of a caller with one code are equal. */
  #noteRefusal(call: EndedCall, principal: string): void {
    const nowMs = this.#ports.nowMs();
    if (nowMs - this.#refusalsSinceMs >= refusalWindowMs) {
      this.#refusalsSinceMs = nowMs;
      this.#refusals.clear();
      this.#refusalKinds.clear();
    }
    const { endpoint, error, method, subject } = call;
    const common = [principal, endpoint.id, error];
    const whole = JSON.stringify([...common, method, subject]);
    const kinds = this.#refusalKinds.get(principal) ?? 0;
    const isMore = kinds >= maxRefusalKinds && !this.#refusals.has(whole);
    const key = isMore ? JSON.stringify(common) : whole;
    const known = this.#refusals.get(key);
    if (known) {
      known.times += 1;
      if (known.row) this.#repeated.add(known);
      return;
    }
    const one = isMore ? { ...call, method: undefined, subject: undefined } : call;
    const queued = this.#add(one, principal);
    if (!queued) return;
    this.#refusals.set(key, queued);
    this.#refusalKinds.set(principal, kinds + 1);
  }

  /** Writes everything that waits. Never rejects. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#writeAll());
    return this.#writing;
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    this.#tellDropped();
    try {
      // New numbers of refusals wait for the next time, because refusals may arrive without a pause.
      await this.#writeRepeated();
      while (this.#queue.length > 0 || this.#ended.length > 0) {
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
    const repeated = [...this.#repeated].slice(0, rowsAtOnce);
    if (repeated.length === 0) return;
    // Those that are refused again meanwhile are added again.
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
    const waiting = this.#queue.slice(0, rowsAtOnce);
    await this.#learnNames(waiting.map(({ call }) => call));
    const written = waiting.flatMap((queued) => {
      const record = this.#recordOf(queued);
      if (!record) queued.contents?.letGo();
      return record ? [{ queued, record }] : [];
    });
    const calls = written.map(({ record }) => record);
    const ended = this.#ended.slice(0, rowsAtOnce);
    await this.#write({ calls, ended });
    this.#ended.splice(0, ended.length);
    this.#queue.splice(0, waiting.length);
    for (const { principal } of waiting) this.#leaves(principal);
    this.#passContents(written, ended);
    for (const { queued, record } of written) {
      const { organizationId, id, times } = record;
      queued.row = { organizationId, id, times };
      if (queued.times > times) this.#repeated.add(queued);
    }
  }

  /** Passes on what is to be stored of calls whose rows are written. */
  #passContents(
    written: readonly { readonly queued: Queued; readonly record: CallRecord }[],
    ended: readonly CallRecord[],
  ): void {
    const { contents: log } = this.#ports;
    for (const { queued, record } of written) {
      if (queued.contents) log?.add(record, queued.contents);
    }
    if (this.#endedContents.size === 0) return;
    for (const record of ended) {
      const contents = this.#endedContents.get(record);
      if (contents) log?.add(record, contents);
      this.#endedContents.delete(record);
    }
  }

  async #write(writes: Partial<CallWrites>): Promise<void> {
    const { calls = [], ended = [], repeated = [], isDurable = false } = writes;
    const periods = this.#known.newOf([...calls, ...ended]);
    await this.#ports.write({ calls, periods, repeated, ended, isDurable });
    this.#known.add(periods);
  }

  #leaves(principal: string): void {
    const left = (this.#queuedOf.get(principal) ?? 0) - 1;
    if (left > 0) this.#queuedOf.set(principal, left);
    else this.#queuedOf.delete(principal);
  }

  async #learnNames(calls: readonly EndedCall[]): Promise<void> {
    const nowMs = this.#ports.nowMs();
    const wanted = {
      organization: new Set<string>(),
      key: new Set<string>(),
      client: new Set<string>(),
      person: new Set<string>(),
    };
    for (const { endpoint, credential, userId } of calls) {
      wanted.organization.add(endpoint.organization);
      wanted[credential.type].add(credential.id);
      if (userId !== undefined) wanted.person.add(userId);
    }
    for (const kind of ['organization', 'key', 'client', 'person'] as const) {
      const missing = [...wanted[kind]].filter(
        (id) => (this.#names.get(`${kind} ${id}`)?.untilMs ?? 0) <= nowMs,
      );
      if (missing.length === 0) continue;
      const found = await this.#ports.namesOf(kind, missing);
      for (const [id, name] of found) {
        this.#names.set(`${kind} ${id}`, { name, untilMs: nowMs + namesValidMs });
      }
    }
  }

  /** `undefined` if the organization was deleted meanwhile. */
  #recordOf({ call, times }: Pick<Queued, 'call' | 'times'>): CallRecord | undefined {
    const { endpoint, target, credential, userId, application, ...rest } = call;
    const name = (kind: string, id: string) => this.#names.get(`${kind} ${id}`)?.name;
    const organizationId = name('organization', endpoint.organization);
    if (organizationId === undefined) return undefined;
    const id = newCallRecordId(this.#ports.nowMs());
    return {
      ...rest,
      organizationId,
      id,
      callId: call.callId ?? id,
      node: this.#ports.node,
      endpoint: { id: endpoint.id, name: endpoint.name },
      target: { id: target.id, name: target.name },
      credential: { ...credential, name: name(credential.type, credential.id) ?? '' },
      person: userId === undefined ? undefined : { id: userId, name: name('person', userId) ?? '' },
      application: application && {
        ...application,
        text: this.#texts.text(application.text, maxLengths.application),
      },
      address: call.address?.slice(0, maxLengths.other),
      requestId: call.requestId.slice(0, maxLengths.other),
      method: call.method && this.#texts.text(call.method, maxLengths.method),
      subject: call.subject && this.#texts.text(call.subject, maxLengths.uri),
      times,
    };
  }

  /** Resolves when everything is written. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }
}

/** The call with its texts at the lengths that are stored: calls wait, and refusals are remembered for a minute. */
function shortened(call: EndedCall): EndedCall {
  const { method, subject, application } = call;
  return {
    ...call,
    method: method && cut(method, maxLengths.method),
    subject: subject && subjectOf(subject, method),
    application: application && {
      ...application,
      text: cut(application.text, maxLengths.application),
    },
  };
}

/** The name of a tool or prompt; or a URI without its query, which can hold anything, and without user and password. */
function subjectOf(subject: string, method: string | undefined): string {
  const isUri = subject.includes(':') || method?.startsWith('resources/') === true;
  if (!isUri) return cut(subject, maxLengths.name);
  const end = subject.search(/[?#]/);
  const whole = end < 0 ? subject : `${subject.slice(0, end + 1)}…`;
  return own(whole.replace(userOfUri, '$1…@'), maxLengths.uri);
}

/** RFC 3986 §3.2.1. Some programs also accept `@` in a password. */
const userOfUri = /^([a-z][\w+.-]*:\/\/)[^/?#]*@/i;

function cut(text: string, maxLength: number): string {
  return text.length > maxLength ? own(text, maxLength) : text;
}

/** The beginning of a text in memory of its own. `slice` alone keeps the whole text. */
function own(text: string, maxLength: number): string {
  return Buffer.from(text.slice(0, maxLength)).toString();
}

/** Texts from outside as they are stored: without secrets. Most calls have texts that earlier ones had, too. */
class StoredTexts {
  readonly #stored = new LimitedMap<string, string>(maxStoredTexts);

  text(text: string, maxLength: number): string {
    const known = this.#stored.get(text);
    if (known !== undefined) return known;
    // PostgreSQL refuses the character NUL, and with it all rows of a batch.
    const stored = redact(text.replaceAll('\0', '\uFFFD')).slice(0, maxLength);
    this.#stored.set(text, stored);
    return stored;
  }
}

/** Which subjects were written down for which periods, so that each is written once. */
class KnownPeriods {
  #known = new Map<string, Set<string>>();
  #newest = 0;

  /** The periods of calls that are not written down yet. */
  newOf(calls: readonly CallRecord[]): readonly CallPeriod[] {
    const found = new Map<string, CallPeriod>();
    for (const call of calls) {
      const { organizationId } = call;
      const period = callPeriodOf(call.id);
      const note = (kind: string, subject: string) => {
        const group = `${period} ${organizationId} ${kind}`;
        const known = this.#known.get(group);
        if (known?.has(subject)) return;
        const kept = (known?.size ?? 0) < maxSubjects ? subject : '';
        if (kept === '' && known?.has('')) return;
        found.set(`${group} ${kept}`, { organizationId, kind, subject: kept, period });
      };
      note('end', call.end);
      const failed = isFailed(call.end);
      if (failed) note('end!', '');
      for (const [kind, subject] of subjectsOf(call)) {
        note(periodKind(kind, false), subject);
        if (failed) note(periodKind(kind, true), subject);
      }
    }
    return [...found.values()];
  }

  add(periods: readonly CallPeriod[]): void {
    for (const { organizationId, kind, subject, period } of periods) {
      if (period > this.#newest) {
        this.#newest = period;
        this.#known = new Map();
      }
      const group = `${period} ${organizationId} ${kind}`;
      const known = this.#known.get(group) ?? new Set();
      this.#known.set(group, known.add(subject));
    }
  }
}
