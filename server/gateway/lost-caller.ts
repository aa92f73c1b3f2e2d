const graceMs = 60_000;

/**
 * Waits for a caller whose connection is gone: a lost stream of the legacy era cancels nothing, and can
 * be asked for again for 60 s. Then `giveUp` runs.
 */
export class LostCaller {
  /** Waits no longer. */
  readonly giveUp: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(giveUp: () => void) {
    this.giveUp = giveUp;
  }

  get isAway(): boolean {
    return this.#timer !== undefined;
  }

  left(): void {
    this.back();
    this.#timer = setTimeout(this.giveUp, graceMs).unref();
  }

  back(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
