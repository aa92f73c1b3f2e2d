import { stringAt, type Message } from '#jsonrpc/message';

/** What an assistant wished of its session, for another one that takes the place of that. */
export interface SessionWishes {
  /** Takes note of a request that the server agreed to. */
  learn(request: Message): void;

  /** The requests that are to be made again. */
  all(): readonly Message[];

  /** A session begins that knows of nothing. */
  forget(): void;
}

const most = 1000;

/**
 * The log level that was set last, and the subscriptions to resources that stand, a thousand at most.
 *
 * MCP 2025-11-25 logging; resources, "Subscriptions"
 */
export function sessionWishes(): SessionWishes {
  const wishes = new Map<string, Message>();
  return {
    learn(request) {
      const { method } = request;
      const subscription = `uri ${stringAt(request, 'params', 'uri') ?? ''}`;
      if (method === 'logging/setLevel') wishes.set('level', request);
      if (method === 'resources/unsubscribe') wishes.delete(subscription);
      if (method === 'resources/subscribe' && wishes.size < most) wishes.set(subscription, request);
    },
    all: () => [...wishes.values()],
    forget: () => wishes.clear(),
  };
}
