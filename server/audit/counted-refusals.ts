import type { Clock } from '#clock/clock';
import type { AuditEvent, AuditLog } from './audit-log.ts';

const windowMs = 60_000;
const mostOfOne = 60;
const mostOfAll = 6000;
const longestTarget = 200;

/** Something that was refused, and that whoever it was can try again without end. */
export type RepeatableRefusal = Omit<AuditEvent, 'at' | 'outcome' | 'times'>;

/** Writes down refusals that can be repeated without end. */
export interface RefusalLog {
  note(refusal: RepeatableRefusal): Promise<void>;
}

/** `failed` hears of what could not be written down, as nobody waits for a count. */
export interface CountedRefusalsPorts {
  readonly audit: Pick<AuditLog, 'append'>;
  readonly clock: Clock;
  readonly failed: (error: unknown) => void;
}

type Other = Pick<AuditEvent, 'actor' | 'organization'> & { times: number };

/**
 * Writes the first of equal refusals down at once, and those that follow within a minute as one event that
 * says how many. At most sixty kinds a minute of one actor have words of their own and the rest of theirs is one
 * number, so that nobody fills the disk with what they may not do, or hides what others were refused behind it. All
 * who prove nothing count as one.
 */
export class CountedRefusals implements RefusalLog {
  readonly #ports: CountedRefusalsPorts;
  #seen = new Map<string, { event: AuditEvent; more: number }>();
  readonly #kinds = new Map<string, number>();
  #others = new Map<string, Other>();
  #timer: NodeJS.Timeout | undefined;

  constructor(ports: CountedRefusalsPorts) {
    this.#ports = ports;
  }

  /** Rejects when the log cannot be written. */
  async note(refusal: RepeatableRefusal): Promise<void> {
    const { requestId: _, ...same } = refusal;
    const key = JSON.stringify(same);
    const known = this.#seen.get(key);
    const at = this.#ports.clock.now();
    const target = refusal.target?.slice(0, longestTarget);
    const event: AuditEvent = { ...refusal, target, at, outcome: 'refused' };
    this.#timer ??= setTimeout(() => {
      this.flush().catch(this.#ports.failed);
    }, windowMs).unref();
    if (known) {
      this.#seen.set(key, { event, more: known.more + 1 });
      return;
    }
    const kinds = this.#kinds.get(event.actor) ?? 0;
    if (kinds >= mostOfOne || this.#seen.size >= mostOfAll) {
      this.#countOther(event);
      return;
    }
    this.#kinds.set(event.actor, kinds + 1);
    this.#seen.set(key, { event, more: 0 });
    await this.#ports.audit.append(event);
  }

  /** Writes down what was counted; then everything is new again. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const [seen, others] = [this.#seen, this.#others];
    this.#seen = new Map();
    this.#kinds.clear();
    this.#others = new Map();
    for (const { event, more } of seen.values()) {
      if (more > 0) await this.#ports.audit.append({ ...event, times: more });
    }
    for (const { actor, organization, times } of others.values()) {
      await this.#ports.audit.append({
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

  /** In the record of an organization only where all of them were. */
  #countOther({ actor, organization }: AuditEvent): void {
    const known = this.#others.get(actor);
    this.#others.set(actor, {
      actor,
      organization: !known || known.organization === organization ? organization : undefined,
      times: (known?.times ?? 0) + 1,
    });
  }
}
