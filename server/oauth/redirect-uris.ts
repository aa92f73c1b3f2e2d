const loopbackHosts = new Set(['127.0.0.1', '[::1]', 'localhost']);
const dangerousSchemes = new Set(['javascript:', 'data:', 'file:', 'vbscript:', 'blob:', 'about:']);

/**
 * Explains what is wrong with a redirect URI to be registered; `undefined` if it is valid. It may use https, http on
 * loopback, or a private scheme. Callers accept private schemes only from administrators.
 *
 * RFC 6749 §3.1.2, RFC 8252 §7, RFC 9700 §4.1
 */
export function checkRedirectUri(text: string): string | undefined {
  if (!/^[\x21-\x7e]+$/.test(text)) return 'contains spaces or non-ASCII characters';
  if (/["<>\\^`{|}]|\$\(|\*/.test(text))
    return 'contains characters that are not allowed in a redirect URI';
  if (!URL.canParse(text)) return 'is not an absolute URI';
  const url = new URL(text);
  if (dangerousSchemes.has(url.protocol)) return `must not use ${url.protocol}`;
  if (url.hash || text.includes('#')) return 'must not have a fragment';
  if (url.username || url.password) return 'must not contain a user or a password';
  if (url.protocol === 'http:' && !loopbackHosts.has(url.hostname)) {
    return 'uses http, which is allowed only for 127.0.0.1, [::1] and localhost';
  }
  if (!isPrivateScheme(text) && !isSourceHost(url.hostname) && !url.hostname.startsWith('[')) {
    return 'has an invalid host: use letters, digits and hyphens, separated by single dots';
  }
  return undefined;
}

/** Whether a host of a redirect URI is the person's own computer, so that a program there gets the answer. */
export function isOwnComputer(host: string): boolean {
  return loopbackHosts.has(host);
}

/**
 * Whether a host can appear in a source list of a content security policy. The policy of the consent page names the
 * redirect target, and a comma or a semicolon in it would start another policy or directive.
 *
 * CSP 3 §2.3.1
 */
export function isSourceHost(hostname: string): boolean {
  return /^[a-z0-9-]+(?:\.[a-z0-9-]+)*$/i.test(hostname);
}

/** Whether a redirect URI leads to a program by its private scheme, rather than to a web site or loopback. */
export function isPrivateScheme(text: string): boolean {
  return !/^https?:/i.test(text);
}

const loopback = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::(\d{1,5}))?((?:[/?].*)?)$/;

/**
 * Whether a redirect URI equals the registered one, character for character. Only the port of the three loopback
 * hosts may differ, because a native application does not know its port until it listens.
 *
 * RFC 8252 §7.3, RFC 9700 §4.1.3
 */
export function matchesRedirectUri(requested: string, registered: string): boolean {
  if (requested === registered) return true;
  const [, host, port = '80', rest] = loopback.exec(requested) ?? [];
  const [, registeredHost, , registeredRest] = loopback.exec(registered) ?? [];
  return (
    host !== undefined &&
    host === registeredHost &&
    rest === registeredRest &&
    Number(port) > 0 &&
    Number(port) < 65_536
  );
}

/** Where a redirect URI leads: a web site, this computer, or a program with a private scheme. */
export interface RedirectPlace {
  readonly kind: 'site' | 'loopback' | 'program';
  /** A host, or the scheme of a program, as in `cursor:`. */
  readonly host: string;
}

export function redirectPlace(redirectUri: string): RedirectPlace {
  const url = new URL(redirectUri);
  if (loopback.test(redirectUri)) return { kind: 'loopback', host: url.hostname };
  if (url.protocol === 'https:') return { kind: 'site', host: url.host };
  return { kind: 'program', host: url.protocol };
}

/** Whether `text` is an https URL that a page may safely show or link to, because a browser would not execute it. */
export function isWebAddress(text: string): boolean {
  if (!/^https:\/\/[\x21-\x7e]+$/.test(text) || /[<>"'`\\^{|}]|\$\(/.test(text)) return false;
  return URL.canParse(text);
}
