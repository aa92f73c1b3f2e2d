import type { Clock, EpochSeconds } from '#model/clock';
import { LimitedMap } from '#model/limited-map';
import { RepeatedWork } from '#model/repeated-work';

/** A queue in the database with work to do in order, such as the events of one webhook. */
export interface WaitingQueue {
  readonly id: string;
  readonly dueAt: EpochSeconds;
}

interface DueQueuesPorts {
  readonly clock: Clock;
  /** A change token of the database. */
  readonly changeToken: () => string;
  readonly listWaiting: () => Promise<readonly WaitingQueue[]>;
  /** Does a part of the work in a queue, so that other queues get their turn. */
  readonly serve: (id: string, signal: AbortSignal) => Promise<void>;
  /** Called with each internal error. */
  readonly failed: (error: unknown) => void;
}

interface DueQueuesOptions {
  readonly lookEveryMs: number;
  /** How many queues are served concurrently. */
  readonly mostAtOnce: number;
  /** How long a queue, or all of them, pause after an internal error, which would otherwise recur each time. */
  readonly pauseAfterFaultSeconds: number;
}

const mostRemembered = 10_000;

/**
 * Serves queues in the database: a few concurrently, but each by only one run at a time. The queue served longest ago comes first.
 * Looks for work when any process has written to the database or a queue is due. The work that waits is in the database, not in
 * memory.
 */
export class DueQueues extends RepeatedWork {
  readonly #ports: DueQueuesPorts;
  readonly #options: DueQueuesOptions;
  readonly #ending = new AbortController();
  readonly #running = new Map<string, Promise<void>>();
  /** The turn in which each queue was last served, counted by `#turn`. */
  readonly #turns = new LimitedMap<string, number>(mostRemembered);
  #turn = 0;
  /** When the pause of each queue after an internal error ends. The key '' is the pause of all. */
  readonly #rests = new LimitedMap<string, EpochSeconds>(mostRemembered);
  #changeToken: string | undefined;
  #dueAt: EpochSeconds = 0;

  constructor(ports: DueQueuesPorts, options: DueQueuesOptions) {
    super(options.lookEveryMs, ports.failed);
    this.#ports = ports;
    this.#options = options;
  }

  /** Looks for work once, and starts to serve queues that are due. */
  protected override work(): Promise<void> {
    return this.#look().catch((error: unknown) => this.#rest('', error));
  }

  /** Aborts the runs in progress. The next process does again what they have not completed. */
  override async close(): Promise<void> {
    this.#ending.abort();
    await super.close();
    await Promise.all(this.#running.values());
  }

  async #look(): Promise<void> {
    const { changeToken, clock, listWaiting } = this.#ports;
    const now = clock.now();
    if (this.#ending.signal.aborted || now < (this.#rests.get('') ?? 0)) return;
    const asOf = changeToken();
    if (asOf === this.#changeToken && now < this.#dueAt) return;
    // Set before the query, so that a run that ends meanwhile causes another look.
    this.#changeToken = asOf;
    const waiting = (await listWaiting()).map(({ id, dueAt }) => ({
      id,
      dueAt: Math.max(dueAt, this.#rests.get(id) ?? 0),
      turn: this.#turns.get(id) ?? 0,
    }));
    this.#dueAt = Math.min(...waiting.map(({ dueAt }) => dueAt).filter((at) => at > now));
    const due = waiting
      .filter(({ id, dueAt }) => dueAt <= now && !this.#running.has(id))
      .sort((one, other) => one.turn - other.turn);
    const free = Math.max(0, this.#options.mostAtOnce - this.#running.size);
    for (const { id } of due.slice(0, free)) this.#begin(id);
  }

  #begin(id: string): void {
    if (this.#ending.signal.aborted) return;
    this.#turn += 1;
    this.#turns.set(id, this.#turn);
    const run = this.#ports
      .serve(id, this.#ending.signal)
      .catch((error: unknown) => this.#rest(id, error))
      .finally(() => {
        this.#running.delete(id);
        // Look again: for the rest of the queue, for what is new, and for queues that waited for a slot.
        this.#changeToken = undefined;
        void this.run();
      });
    this.#running.set(id, run);
  }

  /** Pauses a queue, or all of them if `id` is ''. */
  #rest(id: string, error: unknown): void {
    this.#ports.failed(error);
    this.#rests.set(id, this.#ports.clock.now() + this.#options.pauseAfterFaultSeconds);
    this.#changeToken = undefined;
  }
}
