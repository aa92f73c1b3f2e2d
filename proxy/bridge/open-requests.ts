import { idKey } from '#jsonrpc/message';
import type { Message } from '#jsonrpc/message';

/** A request of the assistant that has no answer yet. */
export type OpenRequest = {
  /** The JSON text of its id, as the assistant wrote it. */
  id: string;
  message: Message;
  controller: AbortController;
  /** Resolves when it was answered or given up. */
  done: Promise<void>;
};

/** The requests that wait for an answer; whoever takes one out is the only one to answer it. */
export interface OpenRequests {
  /** `undefined` when a request of that id is open already. */
  open(message: Message, id: string): OpenRequest | undefined;

  find(id: string): OpenRequest | undefined;

  /** `undefined` when there is no such request any more. */
  take(id: string): OpenRequest | undefined;

  all(): OpenRequest[];
}

export function openRequests(): OpenRequests {
  const requests = new Map<string, OpenRequest & { resolve: () => void }>();
  return {
    open(message, id) {
      const key = idKey(id);
      if (requests.has(key)) return undefined;
      const { promise: done, resolve } = Promise.withResolvers<void>();
      const request = { id, message, controller: new AbortController(), done, resolve };
      requests.set(key, request);
      return request;
    },
    find: (id) => requests.get(idKey(id)),
    take(id) {
      const key = idKey(id);
      const request = requests.get(key);
      requests.delete(key);
      request?.resolve();
      return request;
    },
    all: () => [...requests.values()],
  };
}
