/** Work that a timer repeats. It never runs twice at the same time. */
export abstract class RepeatedWork {
  readonly #timer: NodeJS.Timeout;
  readonly #failed: (error: unknown) => void;
  #running: Promise<void> | undefined;
  #isClosed = false;

  constructor(everyMs: number, failed: (error: unknown) => void) {
    this.#failed = failed;
    this.#timer = setInterval(() => void this.run(), everyMs).unref();
  }

  protected abstract work(): Promise<void>;

  /** Whether the work should end early. */
  protected get isClosed(): boolean {
    return this.#isClosed;
  }

  protected get running(): Promise<void> | undefined {
    return this.#running;
  }

  /** Does the work now, unless it is in progress. Resolves when it is done; never rejects. */
  run(): Promise<void> {
    this.#running ??= this.work()
      .catch(this.#failed)
      .finally(() => {
        this.#running = undefined;
      });
    return this.#running;
  }

  /** Stops the timer. Resolves when the work in progress has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#running;
  }
}
