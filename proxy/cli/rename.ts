import { renameConnection } from '#auth/rename-connection';
import type { Command } from './command.ts';

/** `latchkey rename OLD NEW`. */
export const renameCommand: Command = {
  name: 'rename',
  operands: 'OLD NEW',
  arity: [2, 2],
  summary: 'give a connection another name',
  about: `Renames a connection that add or import made, with its secrets and its sign-in, in the assistants' own
files as well. Other files that start it, such as a project's .mcp.json, need the new name from you. A
proxy that is running under the old name has to be restarted.`,
  flags: { json: { doc: 'one JSON object' } },
  options: ['secret-store', 'secret-store-key-file', 'state-dir'],
  examples: ['latchkey rename sales sales-eu', 'latchkey rename sales sales-eu --json'],
  async run({ operands: [from = '', to = ''], flags, options: given }, host) {
    const { config: _, ...options } = host.options(given);
    const { url, launches } = await renameConnection(from, to, options, host);
    if (flags.has('json')) {
      const assistants = launches.map(({ title: _title, ...launch }) => launch);
      host.print(JSON.stringify({ from, to, url, assistants }));
      return 0;
    }
    host.print(`${from} is now ${to} (${url})`);
    for (const { title, file, backup } of launches) {
      host.print(`${title} starts ${to}: ${file}`);
      if (backup !== undefined) host.warn(`the file as it was: ${backup}`);
      host.warn(`next: restart ${title}`);
    }
    return 0;
  },
};
