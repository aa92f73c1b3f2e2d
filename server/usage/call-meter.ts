import {
  type Caller,
  callerSubject,
  type CallKind,
  type CallTally,
  readCallerSubject,
  type TargetSubject,
  untimed,
} from '#model/call-counts';
import { recordedMethods } from '#model/calls';
import type { NamedKind } from '#db/rollups';
import type { Clock, EpochSeconds } from '#model/clock';
import type { MeteredCall } from '#gateway/metering';
import { isListMethod } from '#gateway/tool-list';
import { LimitedMap } from '#model/limited-map';
import { redact } from 'latchkey-mcp/safe-text';
import { latencyBucket } from './latencies.ts';

const flushEveryMs = 5000;
const deleteEverySeconds = 60;
const talliesPerTransaction = 500;
const maxTallies = 50_000;
const maxUnproved = 10_000;
/** The longest key of cached tallies. Callers choose the names of tools and methods, so a key could have any length. */
const maxKeyLength = 512;

type MutableTally = { -readonly [Member in keyof CallTally]: CallTally[Member] };

interface CallMeterPorts {
  readonly record: (tallies: readonly CallTally[]) => Promise<void>;
  /** Finds the tools among these that their targets have listed. */
  readonly listed: (tools: readonly TargetSubject[]) => Promise<readonly TargetSubject[]>;
  /** Deletes expired rows. */
  readonly deleteOld: (now: EpochSeconds) => Promise<void>;
  readonly clock: Clock;
  /** Called when writing fails. The counts are kept for the next attempt. */
  readonly failed: (error: unknown) => void;
}

/**
 * Counts calls in memory and adds them to the store every five seconds, so that no request waits for it. A process
 * that is killed loses the counts since the last write.
 */
export class CallMeter {
  #tallies = new Map<string, MutableTally>();
  /** The tallies of calls with the same properties, found in one lookup. */
  readonly #alike = new Map<string, readonly MutableTally[]>();
  /** Tallies of failed calls of tools that have no rows of their own yet. At most a hundred names per target. */
  #unproved = new Map<string, MutableTally>();
  readonly #unprovedNames = new Map<string, Set<string>>();
  readonly #names: CountedNames;
  readonly #ports: CallMeterPorts;
  readonly #timer: NodeJS.Timeout;
  #flushing: Promise<void> = Promise.resolve();
  #deletedAt: EpochSeconds = 0;

  /** Loads the stored names, so that a restart does not allow additional ones. */
  constructor(
    counted: readonly (TargetSubject & { readonly kind: NamedKind })[],
    ports: CallMeterPorts,
  ) {
    this.#names = new CountedNames(counted);
    this.#ports = ports;
    this.#timer = setInterval(() => void this.flush(), flushEveryMs).unref();
  }

  get pending(): number {
    return this.#tallies.size + this.#unproved.size;
  }

  note(call: MeteredCall): void {
    const { outcome, ms } = call;
    const isError = outcome === 'tool-error' && !isAbsentList(call);
    const now = this.#ports.clock.now();
    const at = now - (now % 60);
    const bucket = latencyBucket(ms);
    for (const tally of this.#talliesOf(call, at, bucket)) {
      tally.calls += 1;
      if (isError) tally.toolErrors += 1;
      else if (outcome === 'refused') tally.refused += 1;
      else if (outcome === 'upstream-error') tally.upstreamErrors += 1;
    }
  }

  #talliesOf(call: MeteredCall, at: EpochSeconds, bucket: number): readonly MutableTally[] {
    // The tallies of a name may change until a call of it has succeeded, so they are not cached before.
    if (call.outcome !== 'ok') return this.#findTallies(call, at, bucket);
    const { serverId, targetId, credential, userId = '', application = '', method, tool } = call;
    const named = tool === undefined ? '' : `=${tool}`;
    const key = `${serverId} ${targetId} ${credential.type} ${credential.id} ${userId} ${at} ${bucket} ${application}\n${method}${named}`;
    const known = this.#alike.get(key);
    if (known) return known;
    const tallies = this.#findTallies(call, at, bucket);
    const isFull = this.#tallies.size >= maxTallies || this.#alike.size >= maxTallies;
    if (!isFull && key.length <= maxKeyLength) {
      this.#alike.set(key, tallies);
    }
    return tallies;
  }

  #findTallies(call: MeteredCall, at: EpochSeconds, bucket: number): readonly MutableTally[] {
    const { serverId, targetId, credential, userId, application, method, tool, outcome } = call;
    const found: MutableTally[] = [];
    const find = (kind: CallKind, subject: string, among = this.#tallies) => {
      const ofKind = kind === 'caller' ? untimed : bucket;
      const tally = { at, serverId, targetId, kind, subject, bucket: ofKind, ...nothing };
      const key = keyOf(tally);
      const known = among.get(key) ?? (among.size < maxTallies ? tally : undefined);
      if (!known) return;
      among.set(key, known);
      found.push(known);
    };
    find('server', serverId);
    if (credential.type !== 'person') find(credential.type, credential.id);
    if (userId !== undefined) find('person', userId);
    if (application) {
      // An application whose calls all fail is counted, too, so it needs no successful call as proof.
      const name = applicationName(application);
      find('application', this.#names.subjectFor(targetId, 'application', name, true));
    }
    if (method === undefined) return found;
    const isAnswered = outcome === 'ok' || isAbsentList(call);
    // *Needs attention* counts recorded methods separately, so these must not fall under `(other)`, even if they always failed.
    const isNamed = isAnswered || recordedMethods.has(method);
    find('method', this.#names.subjectFor(targetId, 'method', method, isNamed));
    if (tool === undefined) return found;
    const subject = this.#names.subjectFor(targetId, 'tool', tool, isAnswered);
    const isUnproved = subject === otherNames && !isAnswered && this.#mayProve(targetId, tool);
    const among = isUnproved ? this.#unproved : this.#tallies;
    const name = isUnproved ? tool : subject;
    find('tool', name, among);
    const caller = callerOf(call);
    if (caller) find('caller', callerSubject(caller, name), among);
    return found;
  }

  /** Whether there is room to look up later whether the target has listed the tool. */
  #mayProve(targetId: string, tool: string): boolean {
    if (!isCountable(tool) || this.#unproved.size >= maxUnproved) return false;
    const names = this.#unprovedNames.get(targetId) ?? new Set();
    if (!names.has(tool) && names.size >= maxNames) return false;
    this.#unprovedNames.set(targetId, names.add(tool));
    return true;
  }

  /** Counts failed calls under the names of tools that their targets have listed, and the others together. */
  async #prove(): Promise<void> {
    const unproved = [...this.#unproved.values()];
    if (unproved.length === 0) return;
    this.#unproved = new Map();
    this.#unprovedNames.clear();
    const tools = unproved.filter(({ kind }) => kind === 'tool');
    const listed = await this.#ports.listed(tools).catch((error: unknown) => {
      for (const tally of unproved) add(tally, this.#unproved);
      throw error;
    });
    const isListed = new Set(listed.map(({ targetId, subject }) => `${targetId} ${subject}`));
    for (const tally of unproved) {
      const { targetId } = tally;
      const ofCaller = tally.kind === 'caller' ? readCallerSubject(tally.subject) : undefined;
      const tool = ofCaller?.tool ?? tally.subject;
      const isProved = isListed.has(`${targetId} ${tool}`);
      const name = this.#names.subjectFor(targetId, 'tool', tool, isProved);
      const subject = ofCaller ? callerSubject(ofCaller.caller, name) : name;
      add({ ...tally, subject }, this.#tallies);
    }
  }

  /** Adds the counts to the store and removes expired rows. Never rejects. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#write());
    return this.#flushing;
  }

  async #write(): Promise<void> {
    const { record, deleteOld, clock, failed } = this.#ports;
    let tallies: CallTally[] = [];
    try {
      await this.#prove();
      tallies = [...this.#tallies.values()];
      this.#tallies = new Map();
      this.#alike.clear();
      // In several transactions, because no one else can write during one.
      while (tallies.length > 0) {
        await record(tallies.slice(0, talliesPerTransaction));
        tallies.splice(0, talliesPerTransaction);
      }
      if (clock.now() - this.#deletedAt < deleteEverySeconds) return;
      await deleteOld(clock.now());
      this.#deletedAt = clock.now();
    } catch (error) {
      for (const tally of tallies) add(tally, this.#tallies);
      failed(error);
    }
  }

  /** Resolves when all counts are written. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }
}

function add(tally: CallTally, to: Map<string, MutableTally>): void {
  const key = keyOf(tally);
  const counted = to.get(key);
  if (!counted) {
    if (to.size < maxTallies) to.set(key, { ...tally });
    return;
  }
  counted.calls += tally.calls;
  counted.toolErrors += tally.toolErrors;
  counted.refused += tally.refused;
  counted.upstreamErrors += tally.upstreamErrors;
}

function keyOf({ kind, serverId, targetId, at, bucket, subject }: CallTally): string {
  return `${kind} ${serverId} ${targetId} ${at} ${bucket} ${subject}`;
}

/** Whether the server does not have the requested list. Assistants and collections ask anyway, so nobody can fix this error. */
function isAbsentList({ method, errorType }: MeteredCall): boolean {
  return errorType === methodNotFound && isListMethod(method);
}

const methodNotFound = '-32601';

/** The person who calls, else the client or key. */
function callerOf({ userId, credential: { type, id } }: MeteredCall): Caller | undefined {
  if (userId !== undefined) return { type: 'person', id: userId };
  return type === 'person' ? undefined : { type, id };
}

const maxApplication = 300;

/** The name of an application without its version: the calls of all its versions are counted together. */
export function applicationName(text: string): string {
  return text.slice(0, maxApplication).replace(/(?<=\S)[ /]v?\d.*$/s, '');
}

const nothing = { calls: 0, toolErrors: 0, refused: 0, upstreamErrors: 0 };

const maxNames = 100;
const maxLength = 128;
const maxGroups = 20_000;

/** The subject for all names without rows of their own. */
export const otherNames = '(other)';

/**
 * Decides which names of tools, methods and applications get rows of their own. Names come from callers, who can send anything, so
 * the name of a tool or method is accepted only after its MCP server has answered it successfully or listed it, or if Activity records
 * the method. At most a hundred names of each kind are accepted per target; those of the target called longest ago are forgotten first.
 */
export class CountedNames {
  readonly #known = new LimitedMap<string, Set<string>>(maxGroups);

  /** How many groups of names are remembered: three for each target. */
  get size(): number {
    return this.#known.size;
  }

  constructor(stored: readonly (TargetSubject & { kind: NamedKind })[] = []) {
    for (const { targetId, kind, subject } of stored) this.#of(targetId, kind).add(subject);
  }

  /** The subject to count a name under: the name itself or `otherNames`. */
  subjectFor(targetId: string, kind: NamedKind, name: string, isProved: boolean): string {
    const names = this.#of(targetId, kind);
    if (names.has(name)) return name;
    if (!isProved || names.size >= maxNames || !isCountable(name)) return otherNames;
    names.add(name);
    return name;
  }

  #of(targetId: string, kind: NamedKind): Set<string> {
    const key = `${kind} ${targetId}`;
    const names = this.#known.get(key) ?? new Set<string>();
    this.#known.set(key, names);
    return names;
  }
}

/** Callers choose names freely, and an upstream may accept any, even a secret. */
function isCountable(name: string): boolean {
  return name.length <= maxLength && redact(name) === name;
}
