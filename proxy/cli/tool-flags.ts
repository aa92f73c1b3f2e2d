import { changedToolModes } from '#config/read-tool-settings';
import type { ToolSettings } from '#config/connection';
import { UsageError } from '#config/usage-error';
import type { CommandInput, Flag } from './command.ts';

/** What `connect` takes to keep tools back. */
export const toolFlags = {
  'allow-tool': {
    value: 'NAME',
    repeated: true,
    doc: 'let the assistant see this tool, and only those named so; * is any text; LATCHKEY_ALLOW_TOOLS',
  },
  'deny-tool': {
    value: 'NAME',
    repeated: true,
    doc: 'keep this tool from the assistant, also when it is allowed; LATCHKEY_DENY_TOOLS',
  },
  'changed-tools': {
    value: changedToolModes.join('|'),
    doc: 'what becomes of a tool that changed since it was accepted (flag); LATCHKEY_CHANGED_TOOLS',
  },
} satisfies Record<string, Flag>;

/**
 * What the command line says of tools; it wins over what the entry says.
 *
 * @throws {UsageError}
 */
export function toolsAsAsked(flags: CommandInput['flags']): ToolSettings {
  const allowTools = flags.get('allow-tool');
  const denyTools = flags.get('deny-tool');
  const [mode] = flags.get('changed-tools') ?? [];
  const changedTools = changedToolModes.find((known) => known === mode);
  if (mode !== undefined && !changedTools)
    throw new UsageError(`--changed-tools is one of ${changedToolModes.join(', ')}`);
  return {
    ...(allowTools && { allowTools }),
    ...(denyTools && { denyTools }),
    ...(changedTools && { changedTools }),
  };
}
