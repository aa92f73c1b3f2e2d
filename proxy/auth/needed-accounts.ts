import { ConfigurationError } from '#config/configuration-error';
import { inKeychain } from '#config/connection';
import { connectionNames } from '#config/connection-names';
import { findDocuments } from '#config/find-entry';
import type { Options } from '#config/options';
import { registryFile } from '#config/registry-file';
import type { AccountsHost } from './accounts-host.ts';
import { ownAccounts } from './own-accounts.ts';

/**
 * The accounts of the keychain that the connections of these files lead to; `undefined` when a file or an
 * entry cannot be read, so that nobody knows.
 */
export async function neededAccounts(
  files: readonly string[],
  options: Options,
  host: AccountsHost,
): Promise<Set<string> | undefined> {
  const needed = new Set<string>();
  for (const file of files) {
    const read = (path: string) => host.readText(path);
    const [document] = await findDocuments([file], read);
    if (document === undefined && read(file) !== undefined) return undefined;
    const own = file === registryFile(host);
    for (const name of await connectionNames([file], read)) {
      // Most of what stands in an assistant's file is nothing of ours.
      if (!own && !leavesSecrets(document, name)) continue;
      const connection = await host
        .readConnection(name, { ...options, config: file })
        .catch((error: unknown) => {
          if (error instanceof ConfigurationError) return undefined;
          throw error;
        });
      if (!connection) return undefined;
      for (const account of await ownAccounts(connection, options, host)) needed.add(account);
    }
  }
  return needed;
}

function leavesSecrets(document: unknown, name: string): boolean {
  const entries: unknown[] = [];
  JSON.stringify(document, (key, value: unknown) => {
    if (key === name) entries.push(value);
    return value;
  });
  return entries.some((entry) => JSON.stringify(entry)?.includes(JSON.stringify(inKeychain)));
}
