import { join } from 'node:path';
import { defaultStateDirectory } from '#config/default-state-directory';
import { isLaunch, launchEntry } from '#config/launch-entry';
import type { Options } from '#config/options';
import { UsageError } from '#config/usage-error';
import { backUpFile } from '#editing/back-up-file';
import { editJson } from '#editing/edit-json';
import { fileSnapshot } from '#editing/file-snapshot';
import { hashOf, installRecords } from '#editing/install-record';
import { memberAt } from '#editing/member-at';
import { replaceFile } from '#editing/replace-file';
import { assistantFile, type AssistantFile } from './assistant-file.ts';
import type { CommandInput } from './command.ts';
import { launchEnvironment } from './launch-environment.ts';
import type { Machine } from './machine.ts';
import { checkName, registered } from './registry.ts';

type Installed = { file: string; changed: boolean; backup?: string };

type InstallOptions = {
  options: Options;
  env: Record<string, string>;
  machine: Machine;
  replace: boolean;
};

/** `latchkey install`: what stands there already is left alone. */
export async function install(input: CommandInput, machine: Machine): Promise<void> {
  const [assistant = '', name = ''] = input.operands;
  const { config: _, ...options } = machine.options(input.options);
  const target = assistantFile(assistant, input, machine);
  checkName(name);
  if (!(await registered(name, options, machine)))
    throw new UsageError(
      `there is no connection ${name}`,
      `make it: latchkey add ${name} URL, or latchkey import for what an assistant has`,
    );
  const env = launchEnvironment(options, input.options, machine);
  const installed = await installLaunch(name, target, {
    options,
    env,
    machine,
    replace: input.flags.has('replace'),
  });
  const { file, changed, backup } = installed;
  if (input.flags.has('json'))
    return machine.say(JSON.stringify({ assistant, name, ...installed }));
  machine.say(
    changed
      ? `${target.title} starts ${name}: ${file}`
      : `${target.title} starts ${name} already: ${file}`,
  );
  if (backup !== undefined) machine.tell(`the file as it was: ${backup}`);
  if ('script' in machine.launcher && /[\\/]_npx[\\/]/.test(machine.launcher.script))
    machine.tell('hint: npx may throw this program away; npm install --global latchkey keeps it');
  if (changed) machine.tell(`next: restart ${target.title}`);
}

/**
 * Lets the assistant's file start the connection `name`, whatever else stands in it.
 *
 * @throws {UsageError} when an entry of that name is somebody else's and may not be replaced
 */
async function installLaunch(
  name: string,
  { title, file, servers, typed }: AssistantFile,
  { options, env, machine, replace }: InstallOptions,
): Promise<Installed> {
  const entry = launchEntry(machine.launcher, name, { typed, env });
  return machine.exclusively(`file ${file}`, options, async () => {
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
    const backup = await backUpFile(snapshot, machine.clock.now());
    await replaceFile(snapshot, edited);
    const records = installRecords(recordsFolder(options, machine));
    await records.keep(snapshot.realPath, name, {
      after: hashOf(edited),
      ...(backup !== undefined && { backup }),
      ...(snapshot.bytes && { before: hashOf(snapshot.bytes) }),
    });
    return { file, changed: true, ...(backup !== undefined && { backup }) };
  });
}

export function recordsFolder({ stateDir }: Options, machine: Machine): string {
  return join(stateDir ?? defaultStateDirectory(machine), 'installs');
}
