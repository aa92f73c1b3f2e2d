import type { IncomingMessage } from 'node:http';

/** The host a request names: in its target where that is a whole URL, else in `Host`. RFC 9112 §3.2.2 */
export function namedHost({ url = '/', headers }: IncomingMessage): string | undefined {
  return url.startsWith('/') || !URL.canParse(url) ? headers.host : new URL(url).host;
}

/**
 * Says whether a `Host` header names the server at `base`. A foreign one is a rebound DNS name or a misrouted
 * request; neither may reach anything. MCP 2025-06-18 transports, "Security Warning"
 */
export function ownHost(base: string): (host: string | undefined) => boolean {
  const { host: own, port, protocol } = new URL(base);
  // A client may spell out the port that its scheme implies. RFC 9110 §4.2.3
  const spelt = port === '' ? `${own}:${protocol === 'https:' ? 443 : 80}` : own;
  const names = new Set([own, spelt]);
  return (host) => host !== undefined && names.has(host.toLowerCase());
}

/** Whether a browser at `origin` may call: none sent, our own, or one that the operator listed. */
export function isAllowedOrigin(
  origin: string | undefined,
  base: string,
  allowed: readonly string[],
): boolean {
  return origin === undefined || origin === base || allowed.includes(origin);
}
