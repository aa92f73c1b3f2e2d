import { removeConnection } from '#connections/registry';
import { startingAssistants } from '#connections/assistant-views';
import { assistantFile } from '#config/assistants';
import { ConfigurationError, UsageError } from '#config/errors';
import { uninstallLaunch } from '#connections/install';
import type { Options } from '#config/options';
import type { Command, CommandInput } from './command.ts';
import type { CommandHost } from './command-host.ts';

/** `latchkey remove NAME`. */
export const removeCommand: Command = {
  name: 'remove',
  operands: 'NAME',
  arity: [1, 1],
  summary: 'remove a connection, its sign-in and its secrets',
  about: `Signs out of a connection that setup, add or import created, and deletes the connection, its secrets and its
entries in the assistants' files. If the server cannot be reached, the command still deletes them, and the exit
code is 1.`,
  flags: { json: { doc: 'print one JSON object' } },
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
  const json = input.flags.has('json');
  const { connection, notRevoked, secretStays } = await removeConnection(name, options, host);
  const uninstalled: string[] = [];
  for (const assistant of await startingAssistants(name, host)) {
    if (!(await uninstalls(assistant, name, options, host))) continue;
    uninstalled.push(assistant);
    const { title, file } = assistantFile(assistant, undefined, host);
    if (!json) host.print(`removed ${name} from ${title}: ${file}`);
  }
  const startedBy = await startingAssistants(name, host);
  if (json)
    host.print(
      JSON.stringify({ name, url: connection.url, revoked: !notRevoked, uninstalled, startedBy }),
    );
  else host.print(secretStays ? `removed ${name}` : `removed ${name} and its secrets`);
  if (notRevoked !== undefined) {
    host.warn(`latchkey: the server did not revoke the access: ${notRevoked.message}`);
    host.warn('hint: withdraw the consent on the account page of the server');
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

/** Whether the entry was taken out. A file that cannot be changed is left to the user. */
async function uninstalls(
  assistant: string,
  name: string,
  options: Options,
  host: CommandHost,
): Promise<boolean> {
  try {
    const target = assistantFile(assistant, undefined, host);
    return (await uninstallLaunch(name, target, options, host)).did !== 'absent';
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof ConfigurationError)) throw error;
    host.warn(`latchkey: ${error.message}`);
    return false;
  }
}
