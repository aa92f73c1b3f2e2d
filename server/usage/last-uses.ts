import type { EpochSeconds } from '#model/clock';
import type { CredentialUse } from '#db/last-uses';

type Uses = readonly (CredentialUse & { readonly usedAt: EpochSeconds })[];

/** Buffers uses in memory and writes them every `flushEveryMs`, so that no request waits for the database. */
export class UsageRecorder {
  readonly #pending = new Map<string, CredentialUse & { usedAt: EpochSeconds }>();
  readonly #timer: NodeJS.Timeout;
  readonly #write: (uses: Uses) => Promise<void>;
  readonly #failed: (error: unknown) => void;
  #writing: Promise<void> | undefined;

  constructor(
    write: (uses: Uses) => Promise<void>,
    failed: (error: unknown) => void,
    flushEveryMs = 2000,
  ) {
    this.#write = write;
    this.#failed = failed;
    this.#timer = setInterval(() => void this.flush(), flushEveryMs).unref();
  }

  get pending(): number {
    return this.#pending.size;
  }

  used(use: CredentialUse, usedAt: EpochSeconds): void {
    const noted = this.#pending.get(use.id);
    if (noted) noted.usedAt = usedAt;
    else this.#pending.set(use.id, { ...use, usedAt });
  }

  /** Writes the buffer. If that fails, it reports the failure and keeps the uses for the next attempt. */
  async flush(): Promise<void> {
    await this.#writing;
    const uses = [...this.#pending.values()];
    if (uses.length === 0) return;
    this.#pending.clear();
    this.#writing = this.#writeOrKeep(uses);
    await this.#writing;
  }

  async #writeOrKeep(uses: readonly (CredentialUse & { usedAt: EpochSeconds })[]): Promise<void> {
    try {
      await this.#write(uses);
    } catch (error) {
      for (const use of uses) if (!this.#pending.has(use.id)) this.#pending.set(use.id, use);
      this.#failed(error);
    }
  }

  /** Resolves when everything is written, including a write in progress. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }
}
