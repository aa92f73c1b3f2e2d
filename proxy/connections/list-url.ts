/** Whether `url` is an origin without a path, with which people refer to a whole Latchkey server. */
export function isOrigin(url: string): boolean {
  const parsed = URL.parse(url);
  return parsed !== null && parsed.pathname === '/' && parsed.search === '' && parsed.hash === '';
}

/** The organization of a `url` that stands for all its servers: `{origin}/mcp/{organization}`. */
export function organizationOf(url: string): string | undefined {
  const parsed = URL.parse(url);
  if (!parsed || parsed.search !== '' || parsed.hash !== '') return undefined;
  return /^\/mcp\/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\/?$/.exec(parsed.pathname)?.[1];
}

/** The organization and the name of the server that `url` names, as `{origin}/mcp/{organization}/{server}`. */
export function endpointOf(url: string): [organization: string, server: string] | undefined {
  const parsed = URL.parse(url);
  if (!parsed || parsed.search !== '' || parsed.hash !== '') return undefined;
  const [, organization, server] =
    /^\/mcp\/([a-z0-9-]{1,63})\/([a-z0-9-]{1,63})$/.exec(parsed.pathname) ?? [];
  return organization === undefined || server === undefined ? undefined : [organization, server];
}
