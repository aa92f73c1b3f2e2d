/**
 * The setting that suspends a valid credential: the server is disabled, or the organization does not accept
 * self-registered applications, or does not accept Latchkey's own proxy.
 */
export type Suspension = 'server' | 'self_registered' | 'latchkey_proxy';

export const suspensionWords = {
  server: 'an administrator disabled this MCP server',
  self_registered: 'this organization accepts only applications that its administrators created',
  latchkey_proxy: "an administrator of this organization turned off Latchkey's own proxy",
} as const satisfies Record<Suspension, string>;

/**
 * The error message for a suspended credential. The proxy recognizes `suspended: ` at its start, and keeps its tokens,
 * because they can become valid again.
 */
export function suspended(by: Suspension): string {
  return `suspended: ${suspensionWords[by]}`;
}
