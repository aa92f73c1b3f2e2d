/** What changed in a folder of skills. */
export interface SkillChange {
  /** Whether lists have other entries, or entries say something else. */
  readonly isListChanged: boolean;
  /** URIs of files that say something else now, or are gone. */
  readonly updated: readonly string[];
}

/** Tells whoever listens what has changed. */
export class ChangeFeed {
  /** Counts the changes of lists. */
  version = 0;
  readonly #listeners = new Set<(change: SkillChange) => void>();

  tell(change: SkillChange): void {
    if (change.isListChanged) this.version += 1;
    for (const listener of this.#listeners) listener(change);
  }

  /** The changes from now on, until `signal` aborts. Those that come before one is read are held, as one. */
  async *follow(signal: AbortSignal): AsyncGenerator<SkillChange> {
    let held: SkillChange | undefined;
    let wake = Promise.withResolvers<void>();
    const listener = (change: SkillChange) => {
      held = {
        isListChanged: change.isListChanged || (held?.isListChanged ?? false),
        updated: [...new Set([...(held?.updated ?? []), ...change.updated])],
      };
      wake.resolve();
    };
    const stop = () => wake.resolve();
    this.#listeners.add(listener);
    signal.addEventListener('abort', stop);
    try {
      while (!signal.aborted) {
        if (!held) await wake.promise;
        wake = Promise.withResolvers();
        const change = held;
        held = undefined;
        if (change && !signal.aborted) yield change;
      }
    } finally {
      this.#listeners.delete(listener);
      signal.removeEventListener('abort', stop);
    }
  }
}
