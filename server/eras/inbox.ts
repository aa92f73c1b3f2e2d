import type { Message } from './message.ts';

const maxWaiting = 1000;

/**
 * Messages on their way to one reader. Who puts them in never waits; what is only told is left out while the
 * reader is a thousand messages behind.
 */
export class Inbox {
  readonly #waiting: Message[] = [];
  #isOver = false;
  #failure: unknown;
  #news = Promise.withResolvers<void>();

  push(message: Message): void {
    const isTold = message.envelope.kind === 'notification';
    if (this.#isOver || (isTold && this.#waiting.length >= maxWaiting)) return;
    this.#waiting.push(message);
    this.#wake();
  }

  /** Nothing more comes; `failure` is thrown to the reader behind what is there. */
  end(failure?: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#failure = failure;
    this.#wake();
  }

  /** The next message; `undefined` at the end. */
  async next(): Promise<Message | undefined> {
    for (;;) {
      const message = this.#waiting.shift();
      if (message) return message;
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#isOver) return undefined;
      await this.#news.promise;
    }
  }

  #wake(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}
