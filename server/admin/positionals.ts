import { nearest } from 'latchkey-mcp/suggest';
import { CommandError, UsageError } from '#config/usage-error';
import { shellWord } from '#model/shell-word';
import { findOrganization, listOrganizations, type Organization } from '#db/organizations';
import { findMember, findUserByEmail, type User } from '#db/people';
import { findServer, listServers } from '#db/servers';
import { type ServerRecord } from '#model/endpoints';
import type { AdministrationPorts } from './operation.ts';
import { isSlug, parseServerPath, slugOf } from '#model/slug';
import type { Clock } from '#model/clock';

/** The database and keys that administrative commands work on, whether or not the server is running. */
export interface Stores extends Omit<AdministrationPorts, 'clock' | 'refusals'> {
  /** Writes a backup to a new file. @throws `EEXIST` when the file exists */
  readonly backUp: (file: string) => void;
}

/** The dependencies of operations at the command line. */
export interface Ports {
  readonly stores: Stores;
  readonly clock: Clock;
}

/** Input of an operation, as read from the command line. */
export type Given = Readonly<Record<string, unknown>>;

/** A positional argument of a command, and how it is converted to input fields of an operation. */
export interface Positional {
  /** The name in the help: `ORG/SERVER`. */
  readonly usage: string;
  /**
   * Converts the argument. `given` contains the fields of the options and of earlier arguments.
   *
   * @throws {UsageError} when the text is malformed
   * @throws {CommandError} when the named resource does not exist
   */
  readonly read: (text: string, ports: Ports, given: Given) => Given | Promise<Given>;
}

/** An existing organization. */
export const organizationArgument: Positional = {
  usage: 'ORG',
  read: async (text, { stores }) => ({
    organization: (await namedOrganization(text, stores)).name,
  }),
};

/** An existing server. */
export const serverArgument: Positional = { usage: 'ORG/SERVER', read: placeOf };

/** An existing organization, or one of its servers. */
export const organizationOrServerArgument: Positional = {
  usage: 'ORG[/SERVER]',
  read: (text, { stores }) => findListed(text, stores),
};

/** A person who can sign in. */
export const personArgument: Positional = {
  usage: 'EMAIL',
  read: async (text, { stores }) => ({ userId: (await requireUser(text, stores)).id }),
};

/** The organization that an earlier argument or option named. */
export function organizationIn(given: Given): string {
  const { organization } = given;
  return typeof organization === 'string' ? organization : '';
}

/** A text that becomes the value of one field. */
export function textArgument(usage: string, field: string): Positional {
  return { usage, read: (text) => ({ [field]: text }) };
}

const slugHint = 'names are lower-case letters, digits and hyphens, at most 63';

/** @throws {UsageError} when `text` is not a name. */
export function checkSlug(text: string, what: string): string {
  if (isSlug(text)) return text;
  const meant = slugOf(text);
  const example = meant === '' ? '' : `, such as ${meant}`;
  throw new UsageError(`'${text}' is not a name for ${what}`, `${slugHint}${example}`);
}

/** Splits `ORG/NAME`. `example` is a name. @throws {UsageError} when it is malformed */
export function splitPath(
  text: string,
  example = 'head-office',
): { organization: string; name: string } {
  const path = parseServerPath(text);
  if (!path) {
    const isPath = text.split('/').length === 2;
    const what = isPath ? 'has no valid names' : 'is not ORG/NAME';
    throw new UsageError(`'${text}' ${what}, for example acme/${example}`, slugHint);
  }
  return { organization: path.organization, name: path.server };
}

/** @throws {CommandError} when there is no such organization. */
export async function namedOrganization(name: string, { db }: Stores): Promise<Organization> {
  const organization = await findOrganization(db, checkSlug(name, 'an organization'));
  if (organization) return organization;
  const some = { sort: 'name', descending: false, limit: 5, offset: 0 } as const;
  const { items, total } = await listOrganizations(db, some);
  const others = items.map((one) => one.name).join(', ') + (total > items.length ? ', …' : '');
  throw new CommandError(
    `organization ${name} not found`,
    `${others && `existing organizations: ${others}; `}to create this one: latchkey-server organization create ${name}`,
  );
}

/** @throws {CommandError} when there is no such server. */
export async function namedServer(path: string, stores: Stores): Promise<ServerRecord> {
  const { organization, name } = splitPath(path, 'sales');
  const { id: organizationId } = await namedOrganization(organization, stores);
  const server = await findServer(stores.db, organization, name);
  if (server) return server;
  const { items } = await listServers(stores.db, { organizationId, ...firstNames });
  throw new CommandError(
    `there is no server ${path}`,
    askedFor({ organization, name }, items) ??
      `latchkey-server server create ${path} --http-url URL`,
  );
}

/** The query for the names that are compared with a name that does not exist. */
export const firstNames = { sort: 'name', descending: false, limit: 1000, offset: 0 } as const;

/** Asks whether an existing name that resembles the given one was meant; `undefined` if none resembles it. */
export function askedFor(
  { organization, name }: { readonly organization: string; readonly name: string },
  existing: readonly { readonly name: string }[],
): string | undefined {
  const names = existing.map((one) => one.name);
  const found = nearest(name, names);
  return found && `did you mean ${organization}/${found}?`;
}

/** Finds the organization, or the server of it, whose resources are to be listed. */
export async function findListed(
  path: string,
  stores: Stores,
): Promise<{ organization: string; server?: string }> {
  if (!path.includes('/')) return { organization: (await namedOrganization(path, stores)).name };
  const { organization, name } = await namedServer(path, stores);
  return { organization, server: name };
}

/**
 * The input fields that name the server at `path`.
 *
 * @throws {CommandError} when there is no such server.
 */
export async function placeOf(
  path: string,
  { stores }: { stores: Stores },
): Promise<{ organization: string; server: string }> {
  const { organization, name } = await namedServer(path, stores);
  return { organization, server: name };
}

/** @throws {CommandError} if no person has that address. */
export async function requireUser(email: string, { db }: Pick<Stores, 'db'>): Promise<User> {
  const user = await findUserByEmail(db, email);
  if (user) return user;
  throw new CommandError(`no person has the address ${email}`, 'latchkey-server user list');
}

/** Finds a member of an organization. @throws {CommandError} if person or organization do not exist, or the person is not a member */
export async function requireMember(email: string, name: string, stores: Stores): Promise<User> {
  const user = await requireUser(email, stores);
  const { id } = await namedOrganization(name, stores);
  if (await findMember(stores.db, id, user.id)) return user;
  throw new CommandError(
    `${email} does not belong to ${name}`,
    `latchkey-server user create ${shellWord(email)} --organization ${name} --role ROLE adds an existing account`,
  );
}
