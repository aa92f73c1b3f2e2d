import { idKey, readMessage, type Message } from '#jsonrpc/message';
import { UpstreamError, type Deliver } from '#transport/upstream';

/** Requests that are put to the assistant, on behalf of a server that cannot do so itself. */
export interface AskedAssistant {
  /**
   * Puts `method` with `params` (JSON text) to the assistant and resolves with its answer. When
   * `signal` aborts the assistant is told that nobody waits any more.
   *
   * @throws {UpstreamError} `aborted`
   */
  ask(
    request: { method: string; params: string },
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<Message>;

  /** Takes an answer of the assistant; `false` when it answers nothing of ours. */
  take(answer: Message): boolean;
}

export function askedAssistant(): AskedAssistant {
  const waiting = new Map<string, (answer: Message) => void>();
  let asked = 0;
  return {
    async ask({ method, params }, deliver, signal) {
      asked += 1;
      const id = JSON.stringify(`latchkey-asks-${asked}`);
      const name = JSON.stringify(method);
      const request = `{"jsonrpc":"2.0","id":${id},"method":${name},"params":${params}}`;
      const { promise, resolve, reject } = Promise.withResolvers<Message>();
      const stop = () => reject(new UpstreamError('aborted', 'aborted'));
      promise.catch(() => undefined);
      waiting.set(idKey(id), resolve);
      signal.addEventListener('abort', stop, { once: true });
      try {
        await deliver(readMessage(Buffer.from(request)));
        if (signal.aborted) stop();
        return await promise;
      } catch (error) {
        if (waiting.has(idKey(id))) await deliver(withdrawn(id));
        throw error;
      } finally {
        waiting.delete(idKey(id));
        signal.removeEventListener('abort', stop);
      }
    },
    take(answer) {
      const resolve = waiting.get(idKey(answer.id ?? 'null'));
      resolve?.(answer);
      return resolve !== undefined;
    },
  };
}

function withdrawn(id: string): Message {
  const params = `{"requestId":${id},"reason":"the request that needed it is over"}`;
  return readMessage(
    Buffer.from(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`),
  );
}
