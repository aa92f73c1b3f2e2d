import type { Account } from '#auth/account';
import { signsIn } from '#auth/signs-in';
import { UsageError } from '#config/usage-error';
import type { CommandInput } from './command.ts';
import type { Machine } from './machine.ts';

/**
 * The account that a command was asked about.
 *
 * @throws {UsageError} when the connection has an API key
 */
export async function namedAccount(
  { operands: [target = ''], options: given }: CommandInput,
  machine: Machine,
): Promise<Account> {
  const options = machine.options(given);
  const connection = await machine.connection(target, options);
  if (signsIn(connection)) return machine.account(connection, options);
  throw new UsageError(
    `${connection.name} uses an API key, so there is nothing to sign in to`,
    'revoke the key in the dashboard, under Servers',
  );
}
