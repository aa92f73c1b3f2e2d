import type { Command } from './command.ts';
import { placeOptions } from './place-options.ts';
import { namedAccount } from './named-account.ts';

/** `latchkey logout NAME`. */
export const logoutCommand: Command = {
  name: 'logout',
  operands: 'NAME|URL',
  arity: [1, 1],
  summary: 'revoke and forget what login brought',
  about: `Revokes at the server what login brought, and forgets it here. When the server cannot be told, it is
forgotten all the same, and the exit code is 1.`,
  flags: {},
  options: placeOptions,
  examples: ['latchkey logout acme', 'latchkey logout https://cloud.example.com/mcp/acme/sales'],
  async run(input, machine) {
    const account = await namedAccount(input, machine);
    const { logout } = await import('./logout.ts');
    return (await logout(account, machine)) ? 0 : 1;
  },
};
