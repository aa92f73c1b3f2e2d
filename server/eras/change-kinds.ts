import type { Scope } from '#credentials/scope';
import { messageOf, type Message } from './message.ts';

/** What lists may change: the member of a subscription's filter, by the capability that announces it. */
export const filterMembers: Readonly<Record<string, string>> = {
  tools: 'toolsListChanged',
  prompts: 'promptsListChanged',
  resources: 'resourcesListChanged',
};

/** What a caller needs to hear of these. */
export const listScopes: Readonly<Record<string, Scope>> = {
  tools: 'mcp:tools:read',
  prompts: 'mcp:resources:read',
  resources: 'mcp:resources:read',
};

/** What a subscription covers, or is to cover. */
export interface Changes {
  /** Of `filterMembers`. */
  readonly lists: readonly string[];
  readonly uris: readonly string[];
}

/** A filter of `subscriptions/listen`, or what of one is honoured. MCP 2026-07-28 */
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

/** A notification for each of them: while nobody listened, anything may have changed. */
export function allChanged({ lists, uris }: Changes): Message[] {
  const notices = [
    ...lists.map((list) => ({ method: `notifications/${list}/list_changed` })),
    ...uris.map((uri) => ({ method: 'notifications/resources/updated', params: { uri } })),
  ];
  return notices.map((notice) => messageOf(JSON.stringify({ jsonrpc: '2.0', ...notice })));
}
