import { optionNames } from '#config/options';
import { remoteFlags } from '#mcp-remote/flags';
import type { Command } from './command.ts';

/** `latchkey NAME`: what an assistant starts. */
export const connectCommand: Command = {
  name: 'connect',
  operands: 'NAME|URL',
  // Behind the URL mcp-remote takes the port of its redirect URI.
  arity: [1, 2],
  summary: 'what an assistant starts',
  about: 'Carries MCP between standard input and output and the server.',
  flags: remoteFlags,
  options: optionNames,
  examples: [
    'latchkey acme --config ./mcp.json',
    'LATCHKEY_API_KEY=mcp_… latchkey https://cloud.example.com/mcp/acme/sales',
  ],
  async run({ operands: [target = '', port], flags, options: given }, machine) {
    if (flags.size === 0 && port === undefined) {
      const options = machine.options(given);
      await machine.bridge(await machine.readConnection(target, options), options);
      return 0;
    }
    const { readArguments } = await import('#mcp-remote/read-arguments');
    const { logLevel, warnings, ...entry } = readArguments({ url: target, port, flags }, machine);
    for (const warning of warnings) machine.tell(`latchkey: ${warning}`);
    const options = machine.options({ ...(logLevel && { 'log-level': logLevel }), ...given });
    await machine.bridge(await machine.readConnection(target, options, entry), options);
    return 0;
  },
};
