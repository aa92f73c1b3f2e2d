import type { Command, CommandInput } from './command.ts';
import { connectionsOf, type CommandHost } from './command-host.ts';
import { endAccessHint } from './login.ts';

/** `latchkey remove NAME`. */
export const removeCommand: Command = {
  name: 'remove',
  operands: 'NAME',
  summary: 'remove a connection, its sign-in and its secrets',
  about: `Signs out of a connection that setup, add or import created, and deletes the connection, its secrets and its
entries in the assistants' files. If the server cannot be reached, the command still deletes them, and the exit
code is 1. Entries in files that install --config named stay.`,
  flags: { json: { doc: 'print one JSON object' } },
  options: ['secret-store', 'secret-store-key-file', 'state-dir'],
  examples: ['latchkey remove sales', 'latchkey remove sales --json'],
  async run(input, host) {
    return (await remove(input, host)) ? 0 : 1;
  },
};

/** Runs `latchkey remove`. Resolves to `false` if the server did not revoke the access. */
async function remove(input: CommandInput, host: CommandHost): Promise<boolean> {
  const [name = ''] = input.operands;
  const json = input.flags.has('json');
  const removed = await connectionsOf(host, input.options).remove(name);
  const { connection, notRevoked, secretStays, uninstalled, failures, startedBy } = removed;
  for (const { title, file } of json ? [] : uninstalled)
    host.print(`removed ${name} from ${title}: ${file}`);
  for (const failure of failures) host.warn(`latchkey: ${failure}`);
  if (json)
    host.print(
      JSON.stringify({
        name,
        url: connection.url,
        revoked: !notRevoked,
        uninstalled: uninstalled.map(({ assistant }) => assistant),
        startedBy,
      }),
    );
  else host.print(secretStays ? `removed ${name}` : `removed ${name} and its secrets`);
  if (notRevoked !== undefined) {
    host.warn(`latchkey: the server did not revoke the access: ${notRevoked.message}`);
    host.warn(`hint: ${endAccessHint(connection.url)}`);
  }
  if (secretStays) {
    host.warn(
      'latchkey: the client secret stays: a file of an assistant that may use it cannot be read',
    );
    host.warn(
      'hint: find the file with latchkey doctor and fix it; the next add, rename or remove then deletes the secret',
    );
  }
  for (const assistant of startedBy) host.warn(`next: latchkey uninstall ${assistant} ${name}`);
  return notRevoked === undefined;
}
