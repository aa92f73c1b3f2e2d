import { optionNames } from '#config/options';
import { remoteFlags } from '#config/flags';
import type { Command } from './command.ts';
import { toolFlags, toolsAsAsked } from './tool-flags.ts';

/** `latchkey NAME`: what an assistant starts. */
export const connectCommand: Command = {
  name: 'connect',
  operands: 'NAME|URL',
  // Behind the URL mcp-remote takes the port of its redirect URI.
  arity: [1, 2],
  summary: 'what an assistant starts',
  about: 'Carries MCP between standard input and output and the server.',
  flags: { ...remoteFlags, ...toolFlags },
  options: optionNames,
  examples: [
    'latchkey acme --config ./mcp.json',
    'LATCHKEY_API_KEY=mcp_… latchkey https://cloud.example.com/mcp/acme/sales',
  ],
  async run({ operands: [target = '', port], flags, options: given }, machine) {
    const tools = toolsAsAsked(flags);
    const remote = [...flags.keys()].some((name) => name in remoteFlags);
    if (!remote && port === undefined) {
      const options = machine.options(given);
      await machine.bridge(
        { ...(await machine.readConnection(target, options)), ...tools },
        options,
      );
      return 0;
    }
    const { readArguments } = await import('#config/read-arguments');
    const { logLevel, warnings, ...entry } = readArguments({ url: target, port, flags }, machine);
    for (const warning of warnings) machine.tell(`latchkey: ${warning}`);
    const options = machine.options({ ...(logLevel && { 'log-level': logLevel }), ...given });
    const connection = await machine.readConnection(target, options, entry);
    await machine.bridge({ ...connection, ...tools }, options);
    return 0;
  },
};
