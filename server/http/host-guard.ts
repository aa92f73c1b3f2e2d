/** The host and port that a request must name, taken from the public URL. */
export function expectedHost(base: string): string {
  return new URL(base).host;
}

/** Whether there is more than one `Host`: a proxy might have heeded another than we. RFC 9112 §3.2 */
export function namesHosts(rawHeaders: readonly string[]): boolean {
  const isHost = (text: string, index: number) => index % 2 === 0 && /^host$/i.test(text);
  return rawHeaders.filter(isHost).length > 1;
}

/**
 * The host that a request names: that of an absolute request target where it has one, since its `Host`
 * header then counts for nothing. RFC 9112 §3.2.2
 */
export function requestedHost(target: string, host: string | undefined): string | undefined {
  if (target.startsWith('/') || target === '*') return host;
  return URL.canParse(target) ? new URL(target).host : undefined;
}

/**
 * Whether a host that a request names is this server. A foreign one is a rebound DNS name or a misrouted
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
