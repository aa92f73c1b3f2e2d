import { CommandError } from '#config/usage-error';
import type { User } from '#people/user';
import type { Stores } from './command.ts';
import { findOrganization } from './named-server.ts';

/** @throws {CommandError} when nobody has that address. */
export async function findUser(email: string, { users }: Pick<Stores, 'users'>): Promise<User> {
  const user = await users.byEmail(email);
  if (user) return user;
  throw new CommandError(`there is nobody with the address ${email}`, 'latchkey-server user list');
}

/** Somebody of an organization. @throws {CommandError} when one of both is not there, or they do not belong together. */
export async function findMember(email: string, name: string, stores: Stores): Promise<User> {
  const user = await findUser(email, stores);
  const { id } = await findOrganization(name, stores);
  if (await stores.memberships.of(id, user.id)) return user;
  throw new CommandError(
    `${email} does not belong to ${name}`,
    `latchkey-server user create ${email} --organization ${name} --role ROLE adds who has an account already`,
  );
}
