import type { CallKind, CallTally, CallSubject } from '#db/rollups';
import type { Clock, EpochSeconds } from '#clock/clock';
import type { MeteredCall } from '#gateway/metering';
import { redact } from '#log/redact';
import { latencyBucket } from './latencies.ts';

const flushEveryMs = 5000;
const deleteEverySeconds = 60;
const talliesPerTransaction = 500;
const maxTallies = 50_000;

type MutableTally = { -readonly [Member in keyof CallTally]: CallTally[Member] };

interface CallMeterPorts {
  readonly record: (tallies: readonly CallTally[]) => Promise<void>;
  /** Deletes expired rows. */
  readonly deleteOld: (now: EpochSeconds) => Promise<void>;
  readonly clock: Clock;
  /** Called when writing fails. The counts are kept for the next attempt. */
  readonly failed: (error: unknown) => void;
}

/**
 * Counts calls in memory and adds them to the store every five seconds, so that no request waits for it. A process
 * that is killed loses the counts of that time.
 */
export class CallMeter {
  #tallies = new Map<string, MutableTally>();
  /** The tallies of calls with the same properties, found in one lookup. */
  readonly #alike = new Map<string, readonly MutableTally[]>();
  readonly #names: CountedNames;
  readonly #ports: CallMeterPorts;
  readonly #timer: NodeJS.Timeout;
  #flushing: Promise<void> = Promise.resolve();
  #deletedAt: EpochSeconds = 0;

  /** Loads the stored names, so that a restart does not allow additional ones. */
  constructor(
    counted: readonly (CallSubject & { readonly kind: CallKind })[],
    ports: CallMeterPorts,
  ) {
    this.#names = new CountedNames(counted);
    this.#ports = ports;
    this.#timer = setInterval(() => void this.flush(), flushEveryMs).unref();
  }

  /** How many counts wait to be written. */
  get pending(): number {
    return this.#tallies.size;
  }

  /** Counts a call that has ended. */
  note(call: MeteredCall): void {
    const { outcome, ms } = call;
    const now = this.#ports.clock.now();
    const at = now - (now % 60);
    const bucket = latencyBucket(ms);
    for (const tally of this.#talliesOf(call, at, bucket)) {
      tally.calls += 1;
      if (outcome === 'tool-error') tally.toolErrors += 1;
      else if (outcome === 'refused') tally.refused += 1;
      else if (outcome === 'upstream-error') tally.upstreamErrors += 1;
    }
  }

  #talliesOf(call: MeteredCall, at: EpochSeconds, bucket: number): readonly MutableTally[] {
    // The tallies of a name may change until it has been answered successfully, so they are not cached before.
    if (call.outcome !== 'ok') return this.#findTallies(call, at, bucket);
    const { serverId, credential, userId = '', method, tool } = call;
    const named = tool === undefined ? '' : `=${tool}`;
    const key = `${serverId} ${credential.type} ${credential.id} ${userId} ${at} ${bucket} ${method}${named}`;
    const known = this.#alike.get(key);
    if (known) return known;
    const tallies = this.#findTallies(call, at, bucket);
    if (this.#tallies.size < maxTallies && this.#alike.size < maxTallies) {
      this.#alike.set(key, tallies);
    }
    return tallies;
  }

  #findTallies(call: MeteredCall, at: EpochSeconds, bucket: number): readonly MutableTally[] {
    const { serverId, credential, userId, method, tool, outcome } = call;
    const found: MutableTally[] = [];
    const find = (kind: CallKind, subject: string) => {
      const key = `${kind} ${serverId} ${at} ${bucket} ${subject}`;
      let tally = this.#tallies.get(key);
      if (!tally) {
        if (this.#tallies.size >= maxTallies) return;
        tally = { at, serverId, kind, subject, bucket, ...nothing };
        this.#tallies.set(key, tally);
      }
      found.push(tally);
    };
    find('server', serverId);
    if (credential.type !== 'person') find(credential.type, credential.id);
    if (userId !== undefined) find('person', userId);
    if (method === undefined) return found;
    const isAnswered = outcome === 'ok';
    find('method', this.#names.subjectFor(serverId, 'method', method, isAnswered));
    if (tool === undefined) return found;
    find('tool', this.#names.subjectFor(serverId, 'tool', tool, isAnswered));
    return found;
  }

  /** Adds the counts to the store and removes expired rows. Never rejects. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#write());
    return this.#flushing;
  }

  async #write(): Promise<void> {
    const { record, deleteOld, clock, failed } = this.#ports;
    const tallies = [...this.#tallies.values()];
    this.#tallies = new Map();
    this.#alike.clear();
    try {
      // In several transactions, because no one else can write during one.
      while (tallies.length > 0) {
        await record(tallies.slice(0, talliesPerTransaction));
        tallies.splice(0, talliesPerTransaction);
      }
      if (clock.now() - this.#deletedAt < deleteEverySeconds) return;
      await deleteOld(clock.now());
      this.#deletedAt = clock.now();
    } catch (error) {
      this.#putBack(tallies);
      failed(error);
    }
  }

  #putBack(tallies: readonly CallTally[]): void {
    for (const tally of tallies) {
      const { kind, serverId, at, bucket, subject } = tally;
      const key = `${kind} ${serverId} ${at} ${bucket} ${subject}`;
      const counted = this.#tallies.get(key);
      if (!counted) {
        if (this.#tallies.size < maxTallies) this.#tallies.set(key, { ...tally });
        continue;
      }
      counted.calls += tally.calls;
      counted.toolErrors += tally.toolErrors;
      counted.refused += tally.refused;
      counted.upstreamErrors += tally.upstreamErrors;
    }
  }

  /** Resolves when all counts are written. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }
}

const nothing = { calls: 0, toolErrors: 0, refused: 0, upstreamErrors: 0 };

const maxNames = 100;
const maxLength = 128;

/** The subject for all names without rows of their own. */
export const otherNames = '(other)';

/**
 * Decides which tool and method names get rows of their own. Names come from callers, who can send anything, so a
 * name is accepted only after its MCP server has answered it successfully, and at most a hundred of each kind per
 * server.
 */
export class CountedNames {
  readonly #known = new Map<string, Set<string>>();

  constructor(stored: readonly (CallSubject & { kind: CallKind })[] = []) {
    for (const { serverId, kind, subject } of stored) this.#of(serverId, kind).add(subject);
  }

  /** The subject to count a name under: the name itself or `otherNames`. */
  subjectFor(serverId: string, kind: 'tool' | 'method', name: string, isAnswered: boolean): string {
    const names = this.#of(serverId, kind);
    if (names.has(name)) return name;
    if (!isAnswered || names.size >= maxNames || name.length > maxLength) return otherNames;
    // Callers choose names freely, and an upstream may accept any, even a secret.
    if (redact(name) !== name) return otherNames;
    names.add(name);
    return name;
  }

  #of(serverId: string, kind: CallKind): Set<string> {
    const key = `${kind} ${serverId}`;
    const known = this.#known.get(key);
    if (known) return known;
    const names = new Set<string>();
    this.#known.set(key, names);
    return names;
  }
}
