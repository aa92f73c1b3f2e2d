import { idKey } from '#jsonrpc/message';
import type { Message } from '#jsonrpc/message';

/** A request of the assistant that has no answer yet. */
export type OpenRequest = {
  /** The JSON text of its id, as the assistant wrote it. */
  id: string;
  message: Message;
  controller: AbortController;
  /** Resolves when it was answered or given up. */
  done(): Promise<void>;
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
  const requests = new Map<string, OpenRequest>();
  /** Made when somebody asks, as nobody does for most requests. */
  const ends = new Map<OpenRequest, PromiseWithResolvers<void>>();

  async function end(request: OpenRequest): Promise<void> {
    if (requests.get(idKey(request.id)) !== request) return;
    const known = ends.get(request) ?? Promise.withResolvers<void>();
    ends.set(request, known);
    await known.promise;
  }

  return {
    open(message, id) {
      const key = idKey(id);
      if (requests.has(key)) return undefined;
      const request: OpenRequest = {
        id,
        message,
        controller: new AbortController(),
        done: async () => end(request),
      };
      requests.set(key, request);
      return request;
    },
    find: (id) => requests.get(idKey(id)),
    take(id) {
      const key = idKey(id);
      const request = requests.get(key);
      if (!request) return undefined;
      requests.delete(key);
      ends.get(request)?.resolve();
      ends.delete(request);
      return request;
    },
    all: () => [...requests.values()],
  };
}
