/**
 * The setting that refuses a valid credential: the server is disabled, or the organization does not let its members
 * connect applications that registered themselves, or Latchkey's own proxy.
 */
export type Suspension = 'server' | 'self_registered' | 'latchkey_proxy';

export const suspensionWords = {
  server: 'an administrator disabled this MCP server',
  self_registered: 'this organization accepts only applications that its administrators created',
  latchkey_proxy: "an administrator of this organization turned off Latchkey's own proxy",
} as const satisfies Record<Suspension, string>;

/**
 * What the holder of a suspended credential is told. It begins with the word by which the proxy knows that its tokens
 * will be valid again.
 */
export function suspended(by: Suspension): string {
  return `suspended: ${suspensionWords[by]}`;
}
