import type { Message } from 'latchkey-mcp/raw-message';

/** What a server says to one listener, as the events of a `text/event-stream`. */
export interface AnswerStream {
  /** Resolves with the first that is said, or with the end. */
  readonly begun: Promise<void>;

  /** Never waits. What is no request or answer is left out while the listener is far behind. */
  say(message: Message): void;

  end(): void;

  /** Read once. */
  events(): AsyncGenerator<Buffer>;
}

/** What may wait for a listener before notifications are left out. */
const backlogBytes = 1024 * 1024;
const head = Buffer.from('event: message\ndata: ');
const tail = Buffer.from('\n\n');

/** HTML Living Standard §9.2.6 */
export function answerStream(): AnswerStream {
  const waiting: Buffer[] = [];
  let waitingBytes = 0;
  let over = false;
  const begun = Promise.withResolvers<void>();
  let news = Promise.withResolvers<void>();
  const tell = () => {
    begun.resolve();
    news.resolve();
  };
  return {
    begun: begun.promise,
    say({ bytes, kind }) {
      if (over || (kind === 'notification' && waitingBytes > backlogBytes)) return;
      waiting.push(bytes);
      waitingBytes += bytes.length;
      tell();
    },
    end() {
      over = true;
      tell();
    },
    async *events() {
      try {
        for (;;) {
          const bytes = waiting.shift();
          if (bytes) {
            waitingBytes -= bytes.length;
            yield Buffer.concat([head, bytes, tail]);
          } else if (over) return;
          else {
            news = Promise.withResolvers<void>();
            await news.promise;
          }
        }
      } finally {
        over = true;
        waiting.length = 0;
      }
    },
  };
}
