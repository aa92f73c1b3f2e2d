import { removeConnection } from '#auth/registry';
import { startingAssistants } from '#config/assistant-views';
import type { Command, CommandInput } from './command.ts';
import type { CommandHost } from './command-host.ts';

/** `latchkey remove NAME`. */
export const removeCommand: Command = {
  name: 'remove',
  operands: 'NAME',
  arity: [1, 1],
  summary: 'forget a connection, its sign-in and its secrets',
  about: `Signs out of a connection that add or import made, and forgets it and its secrets. When the server
cannot be reached, it is forgotten all the same, and the exit code is 1.`,
  flags: { json: { doc: 'one JSON object' } },
  options: ['secret-store', 'secret-store-key-file', 'state-dir'],
  examples: ['latchkey remove sales', 'latchkey remove sales --json'],
  async run(input, host) {
    return (await remove(input, host)) ? 0 : 1;
  },
};

/** `latchkey remove`: `false` when the server did not revoke the access. */
async function remove(input: CommandInput, host: CommandHost): Promise<boolean> {
  const [name = ''] = input.operands;
  const { config: _, ...options } = host.options(input.options);
  const { connection, notRevoked } = await removeConnection(name, options, host);
  const startedBy = await startingAssistants(name, host);
  if (input.flags.has('json'))
    host.print(JSON.stringify({ name, url: connection.url, revoked: !notRevoked, startedBy }));
  else host.print(`${name} is forgotten, with its secrets`);
  if (notRevoked !== undefined) {
    host.warn(`latchkey: the server did not revoke the access: ${notRevoked.message}`);
    host.warn('hint: withdraw it on the account page of the server');
  }
  for (const assistant of startedBy) host.warn(`next: latchkey uninstall ${assistant} ${name}`);
  return notRevoked === undefined;
}
