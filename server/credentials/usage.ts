import type { EpochSeconds } from '#clock/clock';

/** What was used: an OAuth client by its `client_id`, a key or a person's grant by its id. */
export interface CredentialUse {
  readonly type: 'client' | 'key' | 'grant';
  readonly id: string;
}

/** Keeps when credentials were last used. */
export interface UsageStore {
  /** Writes all of them in one go; a time older than the one kept changes nothing. */
  record(uses: ReadonlyArray<CredentialUse & { readonly usedAt: EpochSeconds }>): Promise<void>;
}

/** Notes uses in memory and writes them every `flushEveryMs`, so that no request waits for it. */
export class UsageRecorder {
  readonly #pending = new Map<string, CredentialUse & { usedAt: EpochSeconds }>();
  readonly #timer: NodeJS.Timeout;
  readonly #store: UsageStore;
  readonly #failed: (error: unknown) => void;
  #writing: Promise<void> | undefined;

  constructor(store: UsageStore, failed: (error: unknown) => void, flushEveryMs = 2000) {
    this.#store = store;
    this.#failed = failed;
    this.#timer = setInterval(() => void this.flush(), flushEveryMs).unref();
  }

  used(use: CredentialUse, usedAt: EpochSeconds): void {
    const noted = this.#pending.get(use.id);
    if (noted) noted.usedAt = usedAt;
    else this.#pending.set(use.id, { ...use, usedAt });
  }

  /** Writes what was noted. A failure is reported, and the uses wait for the next time. */
  async flush(): Promise<void> {
    await this.#writing;
    const uses = [...this.#pending.values()];
    if (uses.length === 0) return;
    this.#pending.clear();
    this.#writing = this.#write(uses);
    await this.#writing;
  }

  async #write(uses: ReadonlyArray<CredentialUse & { usedAt: EpochSeconds }>): Promise<void> {
    try {
      await this.#store.record(uses);
    } catch (error) {
      for (const use of uses) if (!this.#pending.has(use.id)) this.#pending.set(use.id, use);
      this.#failed(error);
    }
  }

  /** Ends once all that was noted is written, a write under way included. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }
}
