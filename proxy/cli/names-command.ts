import type { Command } from './command.ts';

/** What completion scripts ask for the names of connections; quick, and never an error. */
export const namesCommand: Command = {
  name: '__names',
  hidden: true,
  operands: '',
  arity: [0, 0],
  summary: '',
  about: '',
  flags: {},
  options: [],
  examples: [],
  async run(_input, machine) {
    const [{ connectionNames }, { userFiles }] = await Promise.all([
      import('#config/connection-names'),
      import('#config/user-files'),
    ]);
    const names = await connectionNames(userFiles(machine), (path) => machine.readText(path));
    // A name from an assistant's file may hold anything; a shell gets what cannot hurt it.
    for (const name of names.filter((one) => /^[\w.-]+$/.test(one))) machine.say(name);
    return 0;
  },
};
