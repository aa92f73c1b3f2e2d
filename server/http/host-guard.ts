/** The host and port that a request must name, taken from the public URL. */
export function expectedHost(base: string): string {
  return new URL(base).host;
}

/**
 * Whether a `Host` header names this server. A foreign one is a rebound DNS name or a misrouted
 * request; neither may reach anything. MCP 2025-06-18 transports, "Security Warning"
 */
export function isOwnHost(host: string | undefined, base: string): boolean {
  return host?.toLowerCase() === expectedHost(base);
}

/** Whether a browser at `origin` may call: none sent, our own, or one that the operator listed. */
export function isAllowedOrigin(
  origin: string | undefined,
  base: string,
  allowed: readonly string[],
): boolean {
  return origin === undefined || origin === base || allowed.includes(origin);
}
