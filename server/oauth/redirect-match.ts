const loopback = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::(\d{1,5}))?((?:[/?].*)?)$/;

/**
 * Whether a redirect URI is the registered one: character for character, but for the port of the three
 * loopback hosts, which a native application learns only when it starts to listen.
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

/** What stands behind a redirect URI: a web site, this computer, or a program that has the scheme. */
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
