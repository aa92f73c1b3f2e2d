import { join, resolve } from 'node:path';
import { serverBase } from '#agent/server-base';
import { registryFile } from '#config/registry-file';
import type { CommandInput } from './command.ts';
import type { AgentPlan, Machine } from './machine.ts';

/**
 * Which server an agent serves, what and with which key; paths are absolute.
 *
 * @throws {AgentError} without the URL of a server
 */
export function agentPlan({ flags, options: given }: CommandInput, machine: Machine): AgentPlan {
  const { env } = machine;
  const config = flags.get('config')?.[0] ?? machine.options(given).config;
  const keyFile = flags.get('key-file')?.[0] ?? (env['LATCHKEY_AGENT_KEY_FILE'] || undefined);
  return {
    base: serverBase(flags.get('server-url')?.[0] ?? (env['LATCHKEY_SERVER_URL'] || undefined)),
    configurationFile: resolve(config ?? join(registryFile(machine), '..', 'agent.json')),
    ...(keyFile !== undefined && { keyFile: resolve(keyFile) }),
  };
}
