import type { Command } from './command.ts';
import { placeOptions } from './place-options.ts';
import { namedAccount } from './named-account.ts';

/** `latchkey login NAME`. */
export const loginCommand: Command = {
  name: 'login',
  operands: 'NAME|URL',
  arity: [1, 1],
  summary: 'sign in with the browser',
  about: `Signs in with the browser, and keeps in the keychain what that brings. On a machine without a
browser, as over SSH, it prints the page's address and takes the address that the page ends at.`,
  flags: {},
  options: placeOptions,
  examples: ['latchkey login acme', 'latchkey login https://cloud.example.com/mcp/acme/sales'],
  async run(input, machine) {
    const account = await namedAccount(input, machine);
    const { login } = await import('./login.ts');
    await login(account, machine, machine.stop());
    // Running proxies need not wait; that none can be asked is no failure.
    const options = machine.options(input.options);
    await machine.askProxies('sign_in_done', account.connection, options).catch(() => 0);
    return 0;
  },
};
