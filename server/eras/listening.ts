import { changesIn, filterOf } from './change-kinds.ts';
import { subscriptionId } from './envelope.ts';
import type { LegacyLink } from './legacy-link.ts';
import { messageOf, objectAt, spanAt, type Message } from './message.ts';
import { resultTo } from './responses.ts';
import { withMembers } from './with-members.ts';

/**
 * What a legacy upstream tells unasked, as the stream of a `subscriptions/listen`: first what of it is
 * honoured, then what changes, and when the upstream's own stream is over for good, the end.
 *
 * MCP 2026-07-28 subscriptions
 */
export async function* listening(
  link: LegacyLink,
  message: Message,
  signal: AbortSignal,
): AsyncGenerator<Message> {
  const { id = 'null' } = message.envelope;
  const meta = `{${JSON.stringify(subscriptionId)}:${id}}`;
  const listener = await link.listeners.add(
    changesIn(objectAt(message, 'params', 'notifications')),
    signal,
  );
  const { honoured, inbox } = listener;
  const stop = () => inbox.end();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    const filter = JSON.stringify(filterOf(honoured));
    yield messageOf(
      `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":${filter},"_meta":${meta}}}`,
    );
    const isNothing = honoured.lists.length + honoured.uris.length === 0;
    if (!isNothing) {
      for (let said = await inbox.next(); said; said = await inbox.next())
        yield ofSubscription(said, id);
    }
    if (!signal.aborted) yield resultTo(id, `{"resultType":"complete","_meta":${meta}}`);
  } finally {
    signal.removeEventListener('abort', stop);
    void link.listeners.remove(listener).catch(() => undefined);
  }
}

/** A notification that says which subscription it belongs to. */
function ofSubscription(told: Message, id: string): Message {
  const { body, envelope } = told;
  const _meta = withMembers(body, spanAt(told, 'params', '_meta'), { [subscriptionId]: id });
  const params = withMembers(body, envelope.params, { _meta });
  return messageOf(withMembers(body, envelope.root, { params }));
}
