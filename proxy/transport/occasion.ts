/** Something that happens again and again, and those who wait for the next time. */
export interface Occasion {
  happened(): void;

  /** Resolves when it happens, or at once when `signal` aborts; it never rejects. */
  next(signal: AbortSignal): Promise<void>;
}

export function occasion(): Occasion {
  const waiting = new Set<() => void>();
  return {
    happened() {
      for (const wake of waiting) wake();
    },
    next: (signal) =>
      new Promise((resolve) => {
        if (signal.aborted) return resolve();
        const wake = () => {
          waiting.delete(wake);
          signal.removeEventListener('abort', wake);
          resolve();
        };
        waiting.add(wake);
        signal.addEventListener('abort', wake);
      }),
  };
}
