import type { Command } from './command.ts';

/** `latchkey uninstall ASSISTANT NAME`. */
export const uninstallCommand: Command = {
  name: 'uninstall',
  operands: 'ASSISTANT NAME',
  arity: [2, 2],
  summary: 'take that back',
  about: `Puts back what install found, byte for byte where nobody changed the file since; else it removes, or
puts back, that one entry. The connection itself stays.`,
  flags: { json: { doc: 'one JSON object' } },
  options: ['config', 'state-dir'],
  examples: [
    'latchkey uninstall cursor sales',
    'latchkey uninstall claude-code sales --config ./.mcp.json',
  ],
  async run(input, machine) {
    const { uninstall } = await import('./uninstall.ts');
    await uninstall(input, machine);
    return 0;
  },
};
