import type { Clock } from '#clock/clock';
import { idKey, textAt, type Message } from 'latchkey-mcp/raw-message';

/** Beyond either limit nothing more is read; what was read with the message that reached it still counts. */
const mostMessages = 1_024;
const mostBytes = 16 * 1024 * 1024;

/** When nothing was finished for this long, the assistant may want to cancel something. */
const stallMs = 30_000;

/**
 * The assistant's messages that were read and are not done. Reading waits while they are too many, so that a flood fills the
 * assistant's pipe and not our memory. Two things are read all the same: the answer to a question of the server, for which
 * the requests may wait, and cancellations, after the server has finished nothing for half a minute. Other messages that
 * come before these are refused then.
 */
export interface Backlog {
  /** Counts a message of `bytes` until the function that it returns is called. */
  add(bytes: number): () => void;

  /** Takes note of the server's requests, and of those that it withdraws. */
  received(message: Message): void;

  /** The assistant has answered the request of that id. */
  answered(id: string): void;

  /** Whether there is room for one more message; if not, it is refused. */
  isFull(): boolean;

  /** Resolves when more is to be read; also when `signal` aborts. */
  room(signal: AbortSignal): Promise<void>;
}

export function backlog(clock: Clock): Backlog {
  const questions = new Set<string>();
  let messages = 0;
  let bytes = 0;
  let finished = 0;
  let stalledAt: number | undefined;
  let wake = () => {};

  const isFull = () => messages >= mostMessages || bytes >= mostBytes;

  async function change(signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const woken = new Promise<void>((resolve) => (wake = resolve));
    await Promise.race([woken, clock.sleep(stallMs, AbortSignal.any([signal, over.signal]))]);
    over.abort();
  }

  return {
    add(length) {
      messages += 1;
      bytes += length;
      return () => {
        messages -= 1;
        bytes -= length;
        finished += 1;
        if (!isFull()) wake();
      };
    },
    received(message) {
      if (message.kind === 'request') questions.add(idKey(message.id ?? 'null'));
      else if (message.method === 'notifications/cancelled')
        questions.delete(idKey(textAt(message, 'params', 'requestId') ?? 'null'));
      if (questions.size > 0) wake();
    },
    answered: (id) => void questions.delete(idKey(id)),
    isFull,
    async room(signal) {
      while (isFull() && questions.size === 0 && finished !== stalledAt && !signal.aborted) {
        const before = finished;
        await change(signal);
        if (finished === before) stalledAt = before;
      }
    },
  };
}
