const loopbackHosts = new Set(['127.0.0.1', '[::1]', 'localhost']);
const dangerousSchemes = new Set(['javascript:', 'data:', 'file:', 'vbscript:', 'blob:', 'about:']);

/**
 * What is wrong with a redirect URI that somebody wants to register; `undefined` when nothing is.
 * https, http on loopback, or a private scheme that an administrator typed.
 *
 * RFC 6749 §3.1.2, RFC 8252 §7, RFC 9700 §4.1
 */
export function checkRedirectUri(text: string): string | undefined {
  if (!/^[\x21-\x7e]+$/.test(text)) return 'holds blanks or characters beyond ASCII';
  if (/["<>\\^`{|}]|\$\(|\*/.test(text))
    return 'holds characters that a redirect URI does not need';
  if (!URL.canParse(text)) return 'is not an absolute URI';
  const url = new URL(text);
  if (dangerousSchemes.has(url.protocol)) return `may not use ${url.protocol}`;
  if (url.hash || text.includes('#')) return 'may not have a fragment';
  if (url.username || url.password) return 'may not hold a user or a password';
  if (url.protocol === 'http:' && !loopbackHosts.has(url.hostname)) {
    return 'is http, which is for 127.0.0.1, [::1] and localhost only';
  }
  if (!isPrivateScheme(text) && !isSourceHost(url.hostname) && !url.hostname.startsWith('[')) {
    return 'has a host that is neither a domain name nor an address: only letters, digits and hyphens between single dots';
  }
  return undefined;
}

/**
 * Whether a source list of a content security policy can name a host. The consent page's policy names where the answer
 * goes, and a comma or a semicolon there would begin another policy or directive.
 *
 * CSP 3 §2.3.1
 */
export function isSourceHost(hostname: string): boolean {
  return /^[a-z0-9-]+(?:\.[a-z0-9-]+)*$/i.test(hostname);
}

/** Whether a redirect URI goes to a program by its scheme, rather than to a site or this computer. */
export function isPrivateScheme(text: string): boolean {
  return !/^https?:/i.test(text);
}
