import type { Command } from './command.ts';

/** `latchkey remove NAME`. */
export const removeCommand: Command = {
  name: 'remove',
  operands: 'NAME',
  arity: [1, 1],
  summary: 'forget a connection, its sign-in and its secrets',
  about: `Signs out of a connection that add or import made, and forgets it and its secrets. When the server
cannot be told, it is forgotten all the same, and the exit code is 1.`,
  flags: { json: { doc: 'one JSON object' } },
  options: ['secret-store', 'secret-store-key-file', 'state-dir'],
  examples: ['latchkey remove sales', 'latchkey remove sales --json'],
  async run(input, machine) {
    const { remove } = await import('./remove.ts');
    return (await remove(input, machine)) ? 0 : 1;
  },
};
