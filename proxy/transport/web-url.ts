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

/** Whether `url` is `base`, or below it on the same origin. */
export function isWithin(url: string, base: string): boolean {
  const [inner, outer] = [URL.parse(url), URL.parse(base)];
  if (!inner || outer?.origin !== inner.origin) return false;
  const folder = outer.pathname.endsWith('/') ? outer.pathname : `${outer.pathname}/`;
  return `${inner.pathname}/`.startsWith(folder);
}

/** The message for a person who entered a URL that `webUrl` refuses. */
export function webUrlProblem(text: string): string {
  const url = URL.parse(text);
  return url && (url.username || url.password)
    ? 'enter the URL without a user and a password'
    : 'enter an https URL; http works only for this computer';
}

/** The URL that was probably meant by one that `webUrl` refuses: http only on this computer. `undefined` if none is likely. */
export function meantWebUrl(text: string): string | undefined {
  const bare =
    /^(?:http:\/\/)?((?:localhost|[a-z\d-]+(?:\.[a-z\d-]+)+)(?::\d{1,5})?(?:\/[^\s?#]*)?)$/i.exec(
      text,
    )?.[1];
  const meant = bare === undefined ? null : URL.parse(`https://${bare}`);
  return meant ? `${isLoopback(meant) ? 'http' : 'https'}://${bare}` : undefined;
}

/** `text` without percent-encoding; unchanged if its encoding is invalid, as in a password with a bare `%`. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
