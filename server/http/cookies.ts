/** The cookies of our pages: who is signed in, which browser it is before anybody is, and that somebody was before. */
export type CookieName = 'latchkey' | 'latchkey-browser' | 'latchkey-device';

/**
 * The name of a cookie under this public URL. A `__Host-` cookie cannot be set by a neighbour domain or
 * over plain HTTP; browsers take it on https and on http://127.0.0.1, and drop it on other loopback hosts.
 * RFC 6265bis §4.1.3
 */
export function cookieName(name: CookieName, base: string): string {
  return isTrusted(base) ? `__Host-${name}` : name;
}

/** The value of a cookie; `undefined` when it is absent, or there twice and so not ours to trust. */
export function readCookie(
  header: string | undefined,
  name: CookieName,
  base: string,
): string | undefined {
  const prefix = `${cookieName(name, base)}=`;
  const [value, ...more] = (header ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(prefix));
  if (value === undefined || more.length > 0) return undefined;
  const token = value.slice(prefix.length);
  return /^[\w-]{32}$/.test(token) ? token : undefined;
}

/** A `Set-Cookie` header; one with `maxAgeSeconds` 0 takes the cookie away. */
export function setCookie(
  name: CookieName,
  value: string,
  { base, maxAgeSeconds }: { base: string; maxAgeSeconds: number },
): string {
  const secure = isTrusted(base) ? '; Secure' : '';
  const age = `; Max-Age=${maxAgeSeconds}`;
  return `${cookieName(name, base)}=${value}; Path=/; HttpOnly; SameSite=Lax${secure}${age}`;
}

function isTrusted(base: string): boolean {
  const { protocol, hostname } = new URL(base);
  return protocol === 'https:' || hostname === '127.0.0.1';
}
