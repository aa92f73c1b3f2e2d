import { optionNames } from '#config/options';
import type { Command } from './command.ts';

/** `latchkey NAME`: what an assistant starts. */
export const connectCommand: Command = {
  name: 'connect',
  operands: 'NAME|URL',
  arity: [1, 1],
  summary: 'what an assistant starts',
  about: 'Carries MCP between standard input and output and the server.',
  flags: {},
  options: optionNames,
  examples: [
    'latchkey acme --config ./mcp.json',
    'LATCHKEY_API_KEY=mcp_… latchkey https://cloud.example.com/mcp/acme/sales',
  ],
  async run({ operands: [target = ''], options: given }, machine) {
    const options = machine.options(given);
    await machine.bridge(await machine.readConnection(target, options), options);
    return 0;
  },
};
