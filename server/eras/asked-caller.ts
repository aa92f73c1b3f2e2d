import { messageOf, type Message } from './message.ts';

const timeoutMs = 600_000;

/** A question on its way to a caller, and the response that it gets. */
export interface Question {
  readonly request: Message;
  /** Rejects when the call it is for ends, or nobody answers for ten minutes. */
  readonly response: Promise<Message>;
}

/** Requests that are put to a caller of the older era for an upstream that cannot put them itself. */
export class AskedCaller {
  readonly #waiting = new Map<string, (response: Message) => void>();
  #last = 0;

  /** `params` is JSON text. */
  ask(method: string, params: string, signal: AbortSignal): Question {
    this.#last += 1;
    const id = JSON.stringify(`latchkey-asks-${this.#last}`);
    const name = JSON.stringify(method);
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const over = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const stop = () => reject(over.reason);
    this.#waiting.set(id, resolve);
    over.addEventListener('abort', stop, { once: true });
    const response = promise.finally(() => {
      this.#waiting.delete(id);
      over.removeEventListener('abort', stop);
    });
    response.catch(() => undefined);
    const text = `{"jsonrpc":"2.0","id":${id},"method":${name},"params":${params}}`;
    return { request: messageOf(text), response };
  }

  /** Takes a response of the caller's; one that nobody waits for is nothing. */
  take(response: Message): void {
    this.#waiting.get(response.envelope.id ?? '')?.(response);
  }
}
