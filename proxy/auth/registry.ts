import type { AccountsHost } from './accounts-host.ts';
import type { Connection } from '#config/connection';
import { ConfigurationError } from '#config/configuration-error';
import { connectionNames } from '#config/connection-names';
import type { Options } from '#config/options';
import { registryFile } from '#config/registry-file';
import { UsageError } from '#config/usage-error';
import { editJson } from '#config/edit-json';
import { fileSnapshot } from '#config/file-snapshot';
import { replaceFile } from '#config/replace-file';

/**
 * Writes an entry of our own connections, or with `undefined` removes it. One process at a time, so
 * that two who add at once both find theirs.
 */
export async function setRegistered(
  name: string,
  entry: Record<string, unknown> | undefined,
  options: Options,
  host: AccountsHost,
): Promise<void> {
  const file = registryFile(host);
  await host.exclusively(`file ${file}`, options, async () => {
    const snapshot = await fileSnapshot(file);
    const changes = [{ path: ['mcpServers', name], value: entry }];
    await replaceFile(snapshot, await editJson(snapshot.bytes, file, changes));
  });
}

/** The connection of that name among our own; `undefined` when there is none. */
export async function registered(
  name: string,
  options: Options,
  host: AccountsHost,
): Promise<Connection | undefined> {
  const config = registryFile(host);
  const names = await connectionNames([config], (path) => host.readText(path));
  return names.includes(name) ? host.readConnection(name, { ...options, config }) : undefined;
}

/** A name that is safe as a word of any shell and as a key of any file. */
export function checkName(name: string): void {
  if (/^[A-Za-z0-9][\w.-]{0,63}$/.test(name)) return;
  throw new UsageError(
    'a connection is named by letters, digits, dots, dashes and underscores, 64 at most',
    'for example: latchkey add work https://cloud.example.com/mcp/acme/sales',
  );
}

/** Where an assistant knows the name for another URL, `latchkey NAME` could mean either. */
export async function checkUnambiguous(
  name: string,
  url: string,
  options: Options,
  host: AccountsHost,
): Promise<void> {
  const { config: _, ...anywhere } = options;
  const known = await host.readConnection(name, anywhere).catch((error: unknown) => {
    if (error instanceof ConfigurationError) return undefined;
    throw error;
  });
  if (!known || known.url === url || known.source === registryFile(host)) return;
  const problem = `already means ${known.url} there; choose another name, or change it`;
  throw new ConfigurationError([{ source: known.source, key: name, problem }]);
}

/** A name of our own may mean one URL. */
export async function refuseTaken(
  { name, url, source }: Connection,
  options: Options,
  host: AccountsHost,
): Promise<void> {
  const known = await registered(name, options, host);
  if (!known || known.url === url) return;
  const problem = `${known.source} has ${name} for ${known.url}; remove or rename one`;
  throw new ConfigurationError([{ source, key: name, problem }]);
}
