import type { Clock } from '#clock/clock';
import type { AuditEvent, AuditLog } from './audit-log.ts';

const windowMs = 60_000;
const mostDistinct = 60;
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

/**
 * Writes the first of equal refusals down at once, and those that follow within a minute as one event that
 * says how many. At most sixty kinds a minute have words of their own and the rest is one number, so that
 * nobody fills the disk with what they may not do.
 */
export class CountedRefusals implements RefusalLog {
  readonly #ports: CountedRefusalsPorts;
  #seen = new Map<string, { event: AuditEvent; more: number }>();
  #others = 0;
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
    if (this.#seen.size >= mostDistinct) {
      this.#others += 1;
      return;
    }
    this.#seen.set(key, { event, more: 0 });
    await this.#ports.audit.append(event);
  }

  /** Writes down what was counted; then everything is new again. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const [seen, others] = [this.#seen, this.#others];
    this.#seen = new Map();
    this.#others = 0;
    for (const { event, more } of seen.values()) {
      if (more > 0) await this.#ports.audit.append({ ...event, times: more });
    }
    if (others === 0) return;
    await this.#ports.audit.append({
      at: this.#ports.clock.now(),
      actor: 'nobody',
      organization: undefined,
      action: 'refusals.more',
      target: undefined,
      address: undefined,
      requestId: undefined,
      outcome: 'refused',
      times: others,
    });
  }
}
