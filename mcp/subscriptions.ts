import { type Message, messageOf, resultTo } from './message.ts';
import { subscriptionId } from './translation.ts';

/** Members of a subscription filter, by the capability that announces changes of that list. */
export const filterMembers: Readonly<Record<string, string>> = {
  tools: 'toolsListChanged',
  prompts: 'promptsListChanged',
  resources: 'resourcesListChanged',
};

/** The changes that a subscription covers. */
export interface Changes {
  /** Values of `filterMembers`. */
  readonly lists: readonly string[];
  readonly uris: readonly string[];
}

/** The filter of `subscriptions/listen`, or the accepted part of it. MCP 2026-07-28 */
export function changesIn(filter: Readonly<Record<string, unknown>>): Changes {
  const uris = filter['resourceSubscriptions'];
  return {
    lists: Object.keys(filterMembers).filter((list) => filter[filterMembers[list] ?? ''] === true),
    uris: Array.isArray(uris) ? uris.filter((uri) => typeof uri === 'string') : [],
  };
}

export function filterOf({ lists, uris }: Changes): Record<string, unknown> {
  const members = lists.map((list) => [filterMembers[list] ?? '', true] as const);
  return {
    ...Object.fromEntries(members),
    ...(uris.length > 0 && { resourceSubscriptions: uris }),
  };
}

export const acknowledgement = 'notifications/subscriptions/acknowledged';

/** The first message of a subscription, with the accepted part of its filter. `id` is the id of the request, as JSON text. */
export function acknowledged(honoured: Changes, id: string): Message {
  const filter = JSON.stringify(filterOf(honoured));
  const meta = `{"${subscriptionId}":${id}}`;
  return messageOf(
    `{"jsonrpc":"2.0","method":"${acknowledgement}","params":{"notifications":${filter},"_meta":${meta}}}`,
  );
}

/** The last message of a subscription. `id` is the id of the request, as JSON text. */
export function subscriptionEnd(id: string): Message {
  return resultTo(id, `{"resultType":"complete","_meta":{"${subscriptionId}":${id}}}`);
}

/** A notification for each list and resource, because all of them may have changed during a gap. */
export function allChanged({ lists, uris }: Changes): Message[] {
  const notices = [
    ...lists.map((list) => ({ method: `notifications/${list}/list_changed` })),
    ...uris.map((uri) => ({ method: 'notifications/resources/updated', params: { uri } })),
  ];
  return notices.map((notice) => messageOf(JSON.stringify({ jsonrpc: '2.0', ...notice })));
}
