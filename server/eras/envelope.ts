import { modernVersions } from '#gateway/era';
import type { MemberChanges } from './with-members.ts';

/** Begins the names in `_meta` that MCP itself gives. */
export const metaPrefix = 'io.modelcontextprotocol/';

/** Names, in `_meta`, the subscription that a notification belongs to. */
export const subscriptionId = `${metaPrefix}subscriptionId`;

/** Names, in `_meta`, the server that an answer is of. */
export const serverInfoName = `${metaPrefix}serverInfo`;

/** The revision of the modern era that is spoken to upstreams. */
export const modernVersion = modernVersions[0] ?? '';

/** Who a client is and what it can do, as JSON texts: said once in the older era, with every request in the modern one. */
export interface ClientWords {
  readonly capabilities: string;
  readonly clientInfo: string | undefined;
  /** A word: `debug`, `info` … */
  readonly logLevel: string | undefined;
}

/** What a request of the modern era says in `_meta` for this client. MCP 2026-07-28 basic */
export function metaOf({ capabilities, clientInfo, logLevel }: ClientWords): MemberChanges {
  return {
    [`${metaPrefix}protocolVersion`]: JSON.stringify(modernVersion),
    [`${metaPrefix}clientCapabilities`]: capabilities,
    ...(clientInfo !== undefined && { [`${metaPrefix}clientInfo`]: clientInfo }),
    ...(logLevel !== undefined && { [`${metaPrefix}logLevel`]: JSON.stringify(logLevel) }),
  };
}

/** The modern era's own tasks, which no other era can follow. */
const tasksExtension = `${metaPrefix}tasks`;

/**
 * Capabilities of either side as the other era's peer may act on them: without tasks, which are another thing in each. Extensions
 * stay: they are agreed on by these very words in both eras, as that of MCP Apps is.
 */
export function sharedCapabilities(
  capabilities: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const { tasks: _, extensions, ...others } = capabilities;
  if (typeof extensions !== 'object' || extensions === null) return others;
  const kept = Object.entries(extensions).filter(([name]) => name !== tasksExtension);
  return { ...others, ...(kept.length > 0 && { extensions: Object.fromEntries(kept) }) };
}

/** RFC 5424 §6.2.1 */
export const logLevels: ReadonlySet<string> = new Set([
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
]);
