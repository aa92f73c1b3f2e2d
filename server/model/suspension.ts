/**
 * The setting that suspends a valid credential: the server is disabled, or the organization does not accept
 * self-registered applications, or does not accept Latchkey's own proxy, or the person who answers for the key or client
 * left and no one has taken it over.
 */
export type Suspension = 'server' | 'self_registered' | 'latchkey_proxy' | 'owner_left';

export const suspensionWords = {
  server: 'an administrator disabled this MCP server',
  self_registered: 'this organization accepts only applications that its administrators created',
  latchkey_proxy: "an administrator of this organization turned off Latchkey's own proxy",
  owner_left:
    'the person who created this credential left the organization: an administrator must hand it over to someone',
} as const satisfies Record<Suspension, string>;

/** The code with which a refused call is recorded if its credential is suspended. Callers get the words. */
export const suspensionCodes = {
  server: 'server_disabled',
  self_registered: 'self_registered_off',
  latchkey_proxy: 'latchkey_proxy_off',
  owner_left: 'owner_left',
} as const satisfies Record<Suspension, string>;

export type SuspensionCode = (typeof suspensionCodes)[Suspension];

/**
 * The error message for a suspended credential. The proxy recognizes `suspended: ` at its start, and keeps its tokens,
 * because they can become valid again.
 */
export function suspended(by: Suspension): string {
  return `suspended: ${suspensionWords[by]}`;
}
