import type { EpochSeconds } from '#clock/clock';
import { deliverNext, type DeliverNextPorts } from './deliver-next.ts';

const lookEveryMs = 500;
const mostAtOnce = 8;
/** As many a webhook is sent before others have their turn. */
const mostATurn = 50;
const pauseAfterFaultSeconds = 30;

export interface WebhookDeliveriesPorts extends DeliverNextPorts {
  /** Another text than before, once anything was written. */
  readonly written: () => string;
  readonly failed: (error: unknown) => void;
}

/**
 * Sends what is written down to whoever wants it: to each one event after the other, to a few at once. Looks what there
 * is when anything was written, by whatever process, or when a try is due; nothing is held meanwhile but the request.
 */
export class WebhookDeliveries {
  readonly #ports: WebhookDeliveriesPorts;
  readonly #timer: NodeJS.Timeout;
  readonly #ending = new AbortController();
  readonly #running = new Map<string, Promise<void>>();
  /** When each had its turn last, as a count. */
  readonly #turns = new Map<string, number>();
  #turn = 0;
  /** Until when each is left alone after a fault of ours; '' for all of them. */
  readonly #rests = new Map<string, EpochSeconds>();
  #written: string | undefined;
  #dueAt: EpochSeconds = 0;
  #looking: Promise<void> | undefined;

  constructor(ports: WebhookDeliveriesPorts) {
    this.#ports = ports;
    this.#timer = setInterval(() => void this.look(), lookEveryMs).unref();
  }

  /** Looks once, and begins what is due; never rejects. */
  look(): Promise<void> {
    this.#looking ??= this.#look()
      .catch((error: unknown) => this.#rest('', error))
      .finally(() => {
        this.#looking = undefined;
      });
    return this.#looking;
  }

  /** Hangs up on what is under way; it is sent again by whoever comes next. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#ending.abort();
    await this.#looking;
    await Promise.all(this.#running.values());
  }

  async #look(): Promise<void> {
    const { written, clock, backlog } = this.#ports;
    const now = clock.now();
    if (this.#ending.signal.aborted || now < (this.#rests.get('') ?? 0)) return;
    const asOf = written();
    if (asOf === this.#written && now < this.#dueAt) return;
    // Before the question: whoever ends meanwhile has it asked again.
    this.#written = asOf;
    const waiting = (await backlog.waiting()).map(({ id, nextAttemptAt }) => {
      const dueAt = Math.max(nextAttemptAt, this.#rests.get(id) ?? 0);
      return { id, dueAt, turn: this.#turns.get(id) ?? 0 };
    });
    this.#dueAt = Math.min(...waiting.map(({ dueAt }) => dueAt).filter((at) => at > now));
    const due = waiting
      .filter(({ id, dueAt }) => dueAt <= now && !this.#running.has(id))
      .sort((one, other) => one.turn - other.turn);
    for (const { id } of due.slice(0, Math.max(0, mostAtOnce - this.#running.size))) {
      this.#begin(id);
    }
  }

  #begin(id: string): void {
    if (this.#ending.signal.aborted) return;
    this.#turn += 1;
    this.#turns.set(id, this.#turn);
    const run = this.#run(id)
      .catch((error: unknown) => this.#rest(id, error))
      .finally(() => {
        this.#running.delete(id);
        if (this.#running.size === 0 && this.#turns.size > 10_000) this.#turns.clear();
        // What it left, what was written as it ended, and whoever waited for its place.
        this.#written = undefined;
        void this.look();
      });
    this.#running.set(id, run);
  }

  async #run(id: string): Promise<void> {
    const { signal } = this.#ending;
    for (let count = 0; count < mostATurn && !signal.aborted; count += 1) {
      const pending = await this.#ports.backlog.next(id);
      if (!pending || !(await deliverNext(pending, this.#ports, signal))) return;
    }
  }

  /** What cannot be read or opened is no better half a second later. */
  #rest(id: string, error: unknown): void {
    this.#ports.failed(error);
    this.#rests.set(id, this.#ports.clock.now() + pauseAfterFaultSeconds);
    this.#written = undefined;
  }
}
