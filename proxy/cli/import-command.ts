import type { Command } from './command.ts';

/** `latchkey import`. */
export const importCommand: Command = {
  name: 'import',
  operands: '[FILE|ASSISTANT]',
  arity: [0, 1],
  summary: 'move secrets out of assistants’ files, and take over mcp-remote',
  about: `Moves the secrets in an assistant's file, or in all of them, to the keychain, and leaves "keychain"
behind. Entries that start mcp-remote, and those whose assistant connects by itself, start latchkey
from then on; mcp-remote's sign-in comes along where it is certain whose it is. On a terminal it
shows what it is about to do and asks. A copy of the file stays beside it, without
the secrets that were moved, until you delete it.`,
  flags: {
    'dry-run': { doc: 'show what would be done' },
    yes: { doc: 'do not ask' },
    'no-check': { doc: 'ask no server; sign-ins stay where they are' },
    json: { doc: 'one JSON object; does not ask' },
  },
  options: ['secret-store', 'secret-store-key-file', 'state-dir'],
  examples: ['latchkey import --dry-run', 'latchkey import cursor', 'latchkey import ./mcp.json'],
  async run(input, machine) {
    const { importEntries } = await import('./import.ts');
    return (await importEntries(input, machine)) ? 0 : 1;
  },
};
