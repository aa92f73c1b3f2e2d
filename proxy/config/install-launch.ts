import { join } from 'node:path';
import type { AccountsHost } from '#auth/accounts-host';
import { registered, checkName } from '#auth/registry';
import { defaultStateDirectory } from './default-state-directory.ts';
import { isLaunch, launchEntry } from './launch-entry.ts';
import type { Options } from './options.ts';
import { UsageError } from './usage-error.ts';
import { backUpFile } from './back-up-file.ts';
import { editJson } from './edit-json.ts';
import { fileSnapshot } from './file-snapshot.ts';
import { hashOf, installRecords } from './install-record.ts';
import { memberAt } from './member-at.ts';
import { replaceFile } from './replace-file.ts';
import type { AssistantFile } from './assistant-file.ts';

/** `changed`: `false` where it stood there already. */
export type Installed = { file: string; changed: boolean; backup?: string };

export type InstallOptions = {
  options: Options;
  env: Record<string, string>;
  host: AccountsHost;
  replace: boolean;
};

/** @throws {UsageError} when there is no such connection of our own */
export async function checkRegistered(
  name: string,
  options: Options,
  host: AccountsHost,
): Promise<void> {
  checkName(name);
  if (!(await registered(name, options, host)))
    throw new UsageError(
      `there is no connection ${name}`,
      `make it: latchkey add ${name} URL, or latchkey import for what an assistant has`,
    );
}

/**
 * Lets the assistant's file start the connection `name`, whatever else stands in it.
 *
 * @throws {UsageError} when an entry of that name is somebody else's and may not be replaced
 */
export async function installLaunch(
  name: string,
  { title, file, servers, typed }: AssistantFile,
  { options, env, host, replace }: InstallOptions,
): Promise<Installed> {
  const entry = launchEntry(host.launcher, name, { typed, env });
  return host.exclusively(`file ${file}`, options, async () => {
    const snapshot = await fileSnapshot(file);
    const path = [servers, name];
    const edited = await editJson(snapshot.bytes, file, [{ path, value: entry }]);
    const found = await memberAt(snapshot.bytes, path);
    if (JSON.stringify(found) === JSON.stringify(entry)) return { file, changed: false };
    if (found !== undefined && !isLaunch(found, name) && !replace)
      throw new UsageError(
        `${title} has an entry ${name} that starts something else: ${file}`,
        'add --replace, or let latchkey import take it over',
      );
    const backup = await backUpFile(snapshot, host.clock.now());
    await replaceFile(snapshot, edited);
    const records = installRecords(recordsFolder(options, host));
    await records.keep(snapshot.realPath, name, {
      after: hashOf(edited),
      ...(backup !== undefined && { backup }),
      ...(snapshot.bytes && { before: hashOf(snapshot.bytes) }),
    });
    return { file, changed: true, ...(backup !== undefined && { backup }) };
  });
}

export function recordsFolder({ stateDir }: Options, host: AccountsHost): string {
  return join(stateDir ?? defaultStateDirectory(host), 'installs');
}
