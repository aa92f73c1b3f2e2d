import type { IncomingMessage } from 'node:http';

/** The host and port that a request must name, taken from the public URL. */
export function expectedHost(base: string): string {
  return new URL(base).host;
}

/** The host a request names: in its target where that is a whole URL, else in `Host`. RFC 9112 §3.2.2 */
export function namedHost({ url = '/', headers }: IncomingMessage): string | undefined {
  return url.startsWith('/') || !URL.canParse(url) ? headers.host : new URL(url).host;
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
