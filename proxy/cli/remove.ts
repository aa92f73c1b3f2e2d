import { removeConnection } from '#auth/remove-connection';
import { startingAssistants } from '#config/starting-assistants';
import type { CommandInput } from './command.ts';
import type { Machine } from './machine.ts';

/** `latchkey remove`: `false` when the server could not be told. */
export async function remove(input: CommandInput, machine: Machine): Promise<boolean> {
  const [name = ''] = input.operands;
  const { config: _, ...options } = machine.options(input.options);
  const { connection, notRevoked } = await removeConnection(name, options, machine);
  const startedBy = await startingAssistants(name, machine);
  if (input.flags.has('json'))
    machine.say(JSON.stringify({ name, url: connection.url, revoked: !notRevoked, startedBy }));
  else machine.say(`${name} is forgotten, with its secrets`);
  if (notRevoked !== undefined) {
    machine.tell(`latchkey: the server was not told: ${notRevoked.message}`);
    machine.tell('hint: revoke the access there, under what your account has allowed');
  }
  for (const assistant of startedBy) machine.tell(`next: latchkey uninstall ${assistant} ${name}`);
  return notRevoked === undefined;
}
