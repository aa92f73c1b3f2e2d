/** The name of an organization, a server or an agent as it stands in a URL. */
export const slugPattern = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

export function isSlug(text: string): boolean {
  return slugPattern.test(text);
}

/** `organization/server` taken apart; `undefined` when it is not two slugs. */
export function parseServerPath(
  text: string,
): { organization: string; server: string } | undefined {
  const [organization = '', server = '', ...rest] = text.split('/');
  if (rest.length > 0 || !isSlug(organization) || !isSlug(server)) return undefined;
  return { organization, server };
}
