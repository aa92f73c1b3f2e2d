import { CommandError } from '#config/usage-error';
import type { User } from '#people/user';
import type { Stores } from './command.ts';

/** @throws {CommandError} when nobody has that address. */
export async function findUser(email: string, { users }: Pick<Stores, 'users'>): Promise<User> {
  const user = await users.byEmail(email);
  if (user) return user;
  throw new CommandError(`there is nobody with the address ${email}`, 'latchkey-server user list');
}
