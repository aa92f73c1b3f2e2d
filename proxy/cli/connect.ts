import { ConfigurationError, UsageError } from '#config/errors';
import type { Connection, ToolSettings } from '#config/connection';
import { remoteFlags } from '#config/mcp-remote-flags';
import { optionNames, type Options } from '#config/options';
import { type GivenEntry, changedToolModes } from '#config/read-connection';
import type { Command, CommandInput, Flag, OtherCommands } from './command.ts';
import type { CommandHost } from './command-host.ts';

/** The flags that hide tools from the assistant. */
const toolFlags = {
  'allow-tool': {
    value: 'NAME',
    repeated: true,
    doc: 'let the assistant see only tools that match; * stands for any text; LATCHKEY_ALLOW_TOOLS',
  },
  'deny-tool': {
    value: 'NAME',
    repeated: true,
    doc: 'hide tools that match, even if --allow-tool names them; LATCHKEY_DENY_TOOLS',
  },
  'changed-tools': {
    value: changedToolModes.join('|'),
    doc: 'mark or hide tools that changed since you accepted them (flag); LATCHKEY_CHANGED_TOOLS',
  },
} satisfies Record<string, Flag>;

/** `latchkey NAME`, the command that an assistant starts. */
export const connectCommand: Command = {
  name: 'connect',
  operands: 'NAME|URL',
  summary: 'connect an assistant (assistants start this command)',
  about: 'Relays MCP messages between the assistant, on standard input and output, and the server.',
  flags: { ...remoteFlags, ...toolFlags },
  options: optionNames,
  examples: [
    'latchkey acme --config ./mcp.json',
    'LATCHKEY_API_KEY=mcp_… latchkey https://latchkey.example.com/mcp/acme/sales',
  ],
  async run({ operands: [target = '', port], flags, options: given }, host, { meant }) {
    const tools = toolSettings(flags);
    const remote = [...flags.keys()].some((name) => name in remoteFlags);
    if (!remote && port === undefined) {
      const options = host.options(given);
      await host.bridge(
        { ...(await findConnection(target, options, host, meant)), ...tools },
        options,
      );
      return 0;
    }
    const { readArguments } = await import('#config/mcp-remote');
    const { logLevel, warnings, ...entry } = readArguments({ url: target, port, flags }, host);
    for (const warning of warnings) host.warn(`latchkey: ${warning}`);
    const options = host.options({ ...(logLevel && { 'log-level': logLevel }), ...given });
    const connection = await findConnection(target, options, host, meant, entry);
    await host.bridge({ ...connection, ...tools }, options);
    return 0;
  },
};

/** Reads a connection. @throws {UsageError} if no file contains it, but a command has a similar name */
export async function findConnection(
  target: string,
  options: Options,
  host: Pick<CommandHost, 'readConnection'>,
  meant: OtherCommands['meant'],
  given?: GivenEntry,
): Promise<Connection> {
  try {
    return await host.readConnection(target, options, given);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const hint = error.isUnknownName ? meant(target) : undefined;
    throw hint === undefined ? error : new UsageError(error.message, hint, { cause: error });
  }
}

/**
 * The tool settings of the command line, which override those of the entry.
 *
 * @throws {UsageError}
 */
function toolSettings(flags: CommandInput['flags']): ToolSettings {
  const allowTools = flags.get('allow-tool');
  const denyTools = flags.get('deny-tool');
  const [mode] = flags.get('changed-tools') ?? [];
  const changedTools = changedToolModes.find((known) => known === mode);
  if (mode !== undefined && !changedTools)
    throw new UsageError(`--changed-tools must be one of ${changedToolModes.join(', ')}`);
  return {
    ...(allowTools && { allowTools }),
    ...(denyTools && { denyTools }),
    ...(changedTools && { changedTools }),
  };
}
