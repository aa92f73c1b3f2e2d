import { type AuditEvent, auditTick, insertAuditEvent } from '#db/audit';
import type { Clock } from '#model/clock';
import type { Db } from '#db/transaction';

const windowMs = 60_000;
const laterMs = 1000;
const mostOfOne = 60;
const mostOfAll = 6000;
const longestTarget = 200;

/** A refusal that the same client can cause any number of times. */
export type RepeatableRefusal = Omit<AuditEvent, 'at' | 'outcome' | 'times'>;

/** Records refusals that can be repeated endlessly. */
export interface RefusalLog {
  note(refusal: RepeatableRefusal): Promise<void>;
}

/** `failed` receives errors of writing in the background. */
export interface CountedRefusalsPorts {
  readonly write: (event: AuditEvent) => Promise<void>;
  readonly clock: Clock;
  readonly failed: (error: unknown) => void;
}

type Other = Pick<AuditEvent, 'actor' | 'organization'> & { times: number };

/**
 * Records the first of equal refusals immediately, and those that follow within a minute as one event with their
 * number. For each actor, at most sixty kinds per minute are listed and the rest are counted together, so that refusals
 * can neither fill the disk nor hide those of others. All unauthenticated callers are treated as one actor.
 */
export class CountedRefusals implements RefusalLog {
  readonly #ports: CountedRefusalsPorts;
  #seen = new Map<string, { event: AuditEvent; more: number }>();
  readonly #kinds = new Map<string, number>();
  #others = new Map<string, Other>();
  #timer: NodeJS.Timeout | undefined;
  #unwritten: AuditEvent[] = [];
  #laterTimer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(ports: CountedRefusalsPorts) {
    this.#ports = ports;
  }

  /** Rejects when the log cannot be written. */
  async note(refusal: RepeatableRefusal): Promise<void> {
    const first = this.#count(refusal);
    if (first) await this.#ports.write(first);
  }

  /**
   * Notes a refusal like `note`, but writes it within a second, so that the time until the answer does not depend on
   * whether this refusal is the first of its kind.
   */
  noteLater(refusal: RepeatableRefusal): void {
    const first = this.#count(refusal);
    if (!first) return;
    this.#unwritten.push({ ...first, tick: auditTick() });
    this.#laterTimer ??= setTimeout(() => void this.#writeUnwritten(), laterMs).unref();
  }

  /** Counts a refusal, and returns the event to be written now if it is the first of its kind. */
  #count(refusal: RepeatableRefusal): AuditEvent | undefined {
    const { requestId: _, ...same } = refusal;
    const target = refusal.target?.slice(0, longestTarget);
    const key = JSON.stringify({ ...same, target });
    const known = this.#seen.get(key);
    const at = this.#ports.clock.now();
    const event: AuditEvent = { ...refusal, target, at, outcome: 'refused' };
    this.#timer ??= setTimeout(() => {
      this.flush().catch(this.#ports.failed);
    }, windowMs).unref();
    if (known) {
      this.#seen.set(key, { event, more: known.more + 1 });
      return undefined;
    }
    const kinds = this.#kinds.get(event.actor) ?? 0;
    if (kinds >= mostOfOne || this.#seen.size >= mostOfAll) {
      this.#countOther(event);
      return undefined;
    }
    this.#kinds.set(event.actor, kinds + 1);
    this.#seen.set(key, { event, more: 0 });
    return event;
  }

  /** Records everything that is not recorded yet, and starts the counts again. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const [seen, others] = [this.#seen, this.#others];
    this.#seen = new Map();
    this.#kinds.clear();
    this.#others = new Map();
    await this.#writeUnwritten();
    for (const { event, more } of seen.values()) {
      if (more > 0) await this.#ports.write({ ...event, times: more });
    }
    for (const { actor, organization, times } of others.values()) {
      await this.#ports.write({
        at: this.#ports.clock.now(),
        actor,
        organization,
        action: 'refusals.more',
        target: undefined,
        address: undefined,
        requestId: undefined,
        outcome: 'refused',
        times,
      });
    }
  }

  /** Resolves when these events, and those of earlier calls, are written or have failed. */
  #writeUnwritten(): Promise<void> {
    clearTimeout(this.#laterTimer);
    this.#laterTimer = undefined;
    const events = this.#unwritten;
    this.#unwritten = [];
    this.#writing = this.#writing.then(async () => {
      for (const event of events) await this.#ports.write(event).catch(this.#ports.failed);
    });
    return this.#writing;
  }

  /** Counts a refusal that is not listed. Keeps the organization only if all such refusals of the actor have the same one. */
  #countOther({ actor, organization }: AuditEvent): void {
    const known = this.#others.get(actor);
    this.#others.set(actor, {
      actor,
      organization: !known || known.organization === organization ? organization : undefined,
      times: (known?.times ?? 0) + 1,
    });
  }
}

/** Records every refusal separately: for commands of the operator, who could fill the disk anyway. */
export function everyRefusal({
  db,
  clock,
}: {
  readonly db: Db;
  readonly clock: Clock;
}): RefusalLog {
  return {
    note: (refusal) => insertAuditEvent(db, { ...refusal, at: clock.now(), outcome: 'refused' }),
  };
}
