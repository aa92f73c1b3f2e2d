/** How many bytes the other side still takes on a stream. */
export interface SendWindow {
  /** Up to `most` bytes that may go now; waits for the first of them. 0 once `end` was called. */
  take(most: number): Promise<number>;

  /** The other side takes that many more. */
  allow(bytes: number): void;

  /** Nobody waits any longer. */
  end(): void;
}

/** What may be sent on a stream before any credit. `docs/tunnel.md`, "Back-pressure" */
export const windowBytes = 256 * 1024;

export function sendWindow(): SendWindow {
  let left = windowBytes;
  let over = false;
  let news = Promise.withResolvers<void>();
  return {
    async take(most) {
      for (;;) {
        if (over) return 0;
        if (left > 0) break;
        news = Promise.withResolvers<void>();
        await news.promise;
      }
      const taken = Math.min(most, left);
      left -= taken;
      return taken;
    },
    allow(bytes) {
      left = Math.min(left + bytes, Number.MAX_SAFE_INTEGER);
      news.resolve();
    },
    end() {
      over = true;
      news.resolve();
    },
  };
}
