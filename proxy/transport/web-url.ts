/** Hosts that never leave this machine, for which plain http is no risk. RFC 8252 §7.3 */
export function isLoopback({ hostname }: URL): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname);
}

/**
 * `text` as a URL to which a credential may be sent: https, or http on a loopback host; without
 * user information. `undefined` for anything else.
 */
export function webUrl(text: string): URL | undefined {
  const url = URL.parse(text);
  if (!url || url.username || url.password) return undefined;
  if (url.protocol === 'https:') return url;
  return url.protocol === 'http:' && isLoopback(url) ? url : undefined;
}

/** `text` without percent-encoding; as it is where that is not correct, as in a password with a bare `%`. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
