import type { SkillChange } from './change-feed.ts';

const encode = (method: string, params: object) =>
  Buffer.from(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', method, params })}\n\n`);

/** What a listener wants to hear of. */
export interface Wanted {
  readonly lists: boolean;
  readonly uris: ReadonlySet<string>;
  /** `_meta` of each notification, as the modern era has it. */
  readonly meta?: object;
}

/** A change as the events of a stream, of what was asked for. MCP 2025-11-25 resources, "Notifications" */
export function notices({ isListChanged, updated }: SkillChange, wanted: Wanted): Uint8Array[] {
  const meta = wanted.meta && { _meta: wanted.meta };
  const told = updated.filter((uri) => wanted.uris.has(uri));
  return [
    ...(isListChanged && wanted.lists
      ? [encode('notifications/resources/list_changed', { ...meta })]
      : []),
    ...told.map((uri) => encode('notifications/resources/updated', { uri, ...meta })),
  ];
}

/** The first event of a modern stream: what it tells of. MCP 2026-07-28 `subscriptions/listen` */
export function acknowledgement(notifications: object, meta: object): Uint8Array {
  return encode('notifications/subscriptions/acknowledged', { notifications, _meta: meta });
}
