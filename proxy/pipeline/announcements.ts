import type { Message } from '#jsonrpc/message';
import type { Deliver } from '#transport/upstream';
import type { ListKind } from './list-kinds.ts';
import { madeMessage } from './made-message.ts';

/** What is said to the assistant unasked. */
export interface Announcements {
  /** From now on `deliver` takes it; an assistant of the stateless era has its subscriptions instead. */
  to(deliver: Deliver, era: 'session' | 'stateless'): void;

  say(message: Message): Promise<void>;

  changed(kinds: Iterable<ListKind>): Promise<void>;

  /** `id` is the JSON text of the id of a `subscriptions/listen` that is open until `closed` is called. */
  subscribed(id: string, deliver: Deliver): { closed: () => void };
}

export function announcements(): Announcements {
  let era: 'session' | 'stateless' = 'session';
  let take: Deliver = () => Promise.resolve();
  const subscriptions = new Map<string, Deliver>();
  const say = async (message: Message) => take(message);
  return {
    to(deliver, spoken) {
      take = deliver;
      era = spoken;
    },
    say,
    async changed(kinds) {
      for (const kind of kinds) {
        const method = `notifications/${kind}/list_changed`;
        if (era === 'session') await say(madeMessage({ method }));
        // MCP 2026-07-28 subscriptions
        else
          for (const [id, deliver] of subscriptions) {
            const _meta = { 'io.modelcontextprotocol/subscriptionId': JSON.parse(id) as unknown };
            await deliver(madeMessage({ method, params: { _meta } }));
          }
      }
    },
    subscribed(id, deliver) {
      subscriptions.set(id, deliver);
      return { closed: () => void subscriptions.delete(id) };
    },
  };
}
