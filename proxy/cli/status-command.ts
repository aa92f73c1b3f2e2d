import { join } from 'node:path';
import type { Command } from './command.ts';
import { placeOptions } from './place-options.ts';
import { signsIn } from '#auth/signs-in';

/** `latchkey status`. */
export const statusCommand: Command = {
  name: 'status',
  operands: '[NAME|URL]',
  arity: [0, 1],
  summary: 'how the connections stand',
  about: `Says how a connection stands, or all that are configured. It reads this machine alone and asks no
server.`,
  flags: { json: { doc: 'one JSON object: {"connections":[…],"problems":[…]}' } },
  options: placeOptions,
  examples: ['latchkey status', 'latchkey status acme --json'],
  async run({ operands: [target], flags, options: given }, machine) {
    const options = machine.options(given);
    const [
      { status },
      { hasKeptSecrets },
      { userFiles },
      { signedInUrls },
      { defaultStateDirectory },
    ] = await Promise.all([
      import('./status.ts'),
      import('#auth/kept-secrets'),
      import('#config/user-files'),
      import('#auth/signed-in-urls'),
      import('#config/default-state-directory'),
    ]);
    const state = options.stateDir ?? defaultStateDirectory(machine);
    const urls = options.config === undefined ? await signedInUrls(join(state, 'sign-ins')) : [];
    const files = options.config === undefined ? userFiles(machine) : [options.config];
    const lines = await status(
      { target, json: flags.has('json'), files, urls },
      {
        read: async (name) => machine.readConnection(name, options),
        vaultOf: async (connection) =>
          signsIn(connection) ? (await machine.account(connection, options)).vault : undefined,
        complete: async (connection) =>
          hasKeptSecrets(connection, async () => machine.store(options)),
        readText: (path) => machine.readText(path),
        clock: machine.clock,
      },
    );
    for (const line of lines) machine.say(line);
    return 0;
  },
};
