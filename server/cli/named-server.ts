import { CommandError, UsageError } from '#config/usage-error';
import type { Organization } from '#organizations/organization-store';
import type { ServerRecord } from '#organizations/server-record';
import { isSlug, parseServerPath } from '#organizations/slug';
import type { Stores } from './command.ts';

const slugHint = 'names are lower-case letters, digits and hyphens, at most 63';

/** @throws {UsageError} when `text` is not a name. */
export function checkSlug(text: string, what: string): string {
  if (!isSlug(text)) throw new UsageError(`'${text}' is not a name for ${what}`, slugHint);
  return text;
}

/** `ORG/NAME` taken apart. @throws {UsageError} */
export function splitPath(text: string): { organization: string; name: string } {
  const path = parseServerPath(text);
  if (!path) throw new UsageError(`'${text}' is not ORGANIZATION/NAME`, slugHint);
  return { organization: path.organization, name: path.server };
}

/** @throws {CommandError} when there is no such organization. */
export async function findOrganization(
  name: string,
  { organizations }: Stores,
): Promise<Organization> {
  const organization = await organizations.byName(checkSlug(name, 'an organization'));
  if (organization) return organization;
  throw new CommandError(
    `there is no organization ${name}`,
    `latchkey-server organization create ${name}`,
  );
}

/** @throws {CommandError} when there is no such server. */
export async function findServer(path: string, stores: Stores): Promise<ServerRecord> {
  const { organization, name } = splitPath(path);
  await findOrganization(organization, stores);
  const server = await stores.organizations.serverByName(organization, name);
  if (server) return server;
  throw new CommandError(
    `there is no server ${path}`,
    `latchkey-server server create ${path} --http-url URL`,
  );
}

/** What `list` was asked about: an organization, or one of its servers, which must exist. */
export async function findListed(
  path: string,
  stores: Stores,
): Promise<{ organization: string; server?: string }> {
  if (!path.includes('/')) return { organization: (await findOrganization(path, stores)).name };
  const { organization, name } = await findServer(path, stores);
  return { organization, server: name };
}

/**
 * The fields by which operations know the server that `path` names.
 *
 * @throws {CommandError} when there is no such server.
 */
export async function placeOf(
  path: string,
  { stores }: { stores: Stores },
): Promise<{ organization: string; server: string }> {
  const { organization, name } = await findServer(path, stores);
  return { organization, server: name };
}
