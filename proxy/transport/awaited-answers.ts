import { UpstreamError, type Deliver } from './upstream.ts';
import { answerTo } from '#jsonrpc/answer';
import { idKey, type Message } from '#jsonrpc/message';

/** Requests whose answers come by another way than the one they were sent by. */
export interface AwaitedAnswers {
  /**
   * Sends a request and resolves when its answer has been delivered.
   *
   * @throws {UpstreamError} `aborted`, what `send` rejects with, or what `fail` was given
   */
  ask(
    message: Message,
    deliver: Deliver,
    { send, signal }: { readonly send: () => Promise<void>; readonly signal: AbortSignal },
  ): Promise<void>;

  /** Gives an answer to the request that waits for it; `false` when none does. */
  take(answer: Message): Promise<boolean>;

  /** Nothing will come any more for those that wait. */
  fail(error: UpstreamError): void;
}

type Waiting = { id: string; deliver: Deliver; resolve: () => void; fail: (e: Error) => void };

/** Keeps who waits for which answer by the id of the request, in memory. */
export function awaitedAnswers(): AwaitedAnswers {
  const waiting = new Map<string, Waiting>();

  return {
    async ask(message, deliver, { send, signal }) {
      const id = message.id ?? 'null';
      const key = idKey(id);
      const { promise, resolve, reject: fail } = Promise.withResolvers<void>();
      const stop = () => fail(new UpstreamError('aborted', 'aborted'));
      promise.catch(() => undefined);
      waiting.set(key, { id, deliver, resolve, fail });
      signal.addEventListener('abort', stop, { once: true });
      try {
        if (signal.aborted) stop();
        const sent = send();
        const accepted = async () => {
          await sent;
          await promise;
        };
        // Whether a request was taken is known once it is sent, though the way back broke off before.
        const answered = async () => {
          try {
            await promise;
          } catch (error) {
            await sent;
            throw error;
          }
        };
        await Promise.race([answered(), accepted()]);
      } finally {
        waiting.delete(key);
        signal.removeEventListener('abort', stop);
      }
    },

    async take(answer) {
      const asker = waiting.get(idKey(answer.id ?? 'null'));
      if (!asker) return false;
      await asker.deliver(answerTo(asker.id, answer));
      asker.resolve();
      return true;
    },

    fail(error) {
      for (const { fail } of waiting.values()) fail(error);
    },
  };
}
