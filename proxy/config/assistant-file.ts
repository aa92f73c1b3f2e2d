import type { AccountsHost } from '#auth/accounts-host';
import { basename } from 'node:path';
import { assistantNamed, assistants } from './assistants.ts';
import { UsageError } from './usage-error.ts';

/** The file of an assistant that a command is about, and how entries look there. */
export type AssistantFile = {
  title: string;
  file: string;
  servers: 'mcpServers' | 'servers';
  typed: boolean;
};

/**
 * The assistant's own file of this user, or the one that `--config` names. `LATCHKEY_CONFIG` says where
 * connections are found, and not what may be written to.
 *
 * @throws {UsageError}
 */
export function assistantFile(
  name: string,
  config: string | undefined,
  host: AccountsHost,
): AssistantFile {
  const assistant = assistantNamed(name);
  if (!assistant)
    throw new UsageError(
      'which assistant?',
      `the assistants are ${Object.keys(assistants).join(', ')}`,
    );
  const { title, servers, typed } = assistant;
  const file = config ?? assistant.file(host);
  // VS Code says "servers" in its own files alone; what it shares with others has the others' word.
  const shared = basename(file) === '.mcp.json';
  return { title, file, servers: shared ? 'mcpServers' : servers, typed };
}
