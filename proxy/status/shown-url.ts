/** A server's address as it is shown: what stands behind the path may be a key. */
export function shownUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + (pathname === '/' ? '' : pathname);
}
