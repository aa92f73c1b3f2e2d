/** The name of an organization, a server or an agent in a URL. */
export const slugPattern = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** The rule as a phrase that follows the name of the field. */
export const slugRule = 'must be lower-case letters, digits and hyphens, at most 63';

export function isSlug(text: string): boolean {
  return slugPattern.test(text);
}

/**
 * Turns a display name into a name for URLs: `Acme GmbH` becomes `acme-gmbh`. Letters lose their accents; other characters
 * separate words. Empty if nothing remains, as for a name in another script.
 */
export function slugOf(text: string): string {
  const plain = text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase().replaceAll('ß', 'ss');
  const words = plain.split(/[^a-z0-9]+/).filter(Boolean);
  return words.join('-').slice(0, 63).replace(/-+$/, '');
}

/** Splits `organization/server`; `undefined` if it is not two slugs. */
export function parseServerPath(
  text: string,
): { organization: string; server: string } | undefined {
  const [organization = '', server = '', ...rest] = text.split('/');
  if (rest.length > 0 || !isSlug(organization) || !isSlug(server)) return undefined;
  return { organization, server };
}

/** The parts of an `organization/server` that was checked before, such as one from the database. */
export function partsOf(serverPath: string): { organization: string; server: string } {
  const [organization = '', server = ''] = serverPath.split('/');
  return { organization, server };
}
