import { refuseCommandName } from './add.ts';
import { restartLine } from './install.ts';
import type { Command } from './command.ts';
import { connectionsOf } from './command-host.ts';

/** `latchkey rename OLD NEW`. */
export const renameCommand: Command = {
  name: 'rename',
  operands: 'OLD NEW',
  summary: 'rename a connection',
  about: `Renames a connection that setup, add or import created, with its secrets, its sign-in and its entries in the assistants'
files. Change the name yourself in other files that start it, such as the .mcp.json of a project, and restart each
proxy that runs under the old name.`,
  flags: { json: { doc: 'print one JSON object' } },
  options: ['secret-store', 'secret-store-key-file', 'state-dir'],
  examples: ['latchkey rename sales sales-eu', 'latchkey rename sales sales-eu --json'],
  async run({ operands: [from = '', to = ''], flags, options: given }, host, others) {
    await refuseCommandName(to, others);
    const { url, launches } = await connectionsOf(host, given).rename(from, to);
    if (flags.has('json')) {
      const assistants = launches.map(({ title: _title, ...launch }) => launch);
      host.print(JSON.stringify({ from, to, url, assistants }));
      return launches.some(({ problem }) => problem !== undefined) ? 1 : 0;
    }
    host.print(`renamed ${from} to ${to} (${url})`);
    for (const { title, file, backup, problem } of launches) {
      if (problem !== undefined) {
        host.warn(`latchkey: ${title} still starts ${from}: ${problem}`);
        continue;
      }
      host.print(`renamed it in ${title}: ${file}`);
      if (backup !== undefined) host.warn(`backup of the file: ${backup}`);
    }
    const renamed = launches.filter(({ problem }) => problem === undefined);
    if (renamed.length > 0) host.warn(restartLine(renamed.map(({ title }) => title)));
    if (renamed.length === launches.length) return 0;
    host.warn(`hint: fix the problem, then run latchkey rename ${from} ${to} again`);
    return 1;
  },
};
