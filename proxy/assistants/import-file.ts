import { keepSecrets } from '#accounts/kept-secrets';
import { noteStored } from '#accounts/note-stored';
import type { OwnMachine } from '#accounts/own-machine';
import { setRegistered } from '#accounts/registry';
import { inKeychain } from '#config/connection';
import { connectionEntry } from '#config/connection-entry';
import { launchEntry } from '#config/launch-entry';
import type { Options, OptionTexts } from '#config/options';
import { backUpFile } from '#editing/back-up-file';
import { editJson, type JsonChange } from '#editing/edit-json';
import { fileSnapshot } from '#editing/file-snapshot';
import { replaceFile } from '#editing/replace-file';
import type { ImportFile } from './import-plan.ts';
import { launchEnvironment } from './launch-environment.ts';

/** Secrets first, the connection next, the file last: whatever fails, nothing is lost.
 * The backup, where the file was changed. */
export async function importFile(
  { file, typed, steps }: ImportFile,
  options: Options,
  given: OptionTexts,
  machine: OwnMachine,
): Promise<string | undefined> {
  const store = await machine.store(options);
  const env = launchEnvironment(options, given, machine);
  const changes: JsonChange[] = [];
  for (const { connection, secrets, secretHeaders, entry, servers } of steps) {
    await keepSecrets(connection, secrets, store);
    await noteStored(connection, secrets, options, machine);
    const path = [servers, entry.key];
    if (entry.inPlace) {
      for (const place of entry.inPlace)
        changes.push({ path: [...path, ...place], value: inKeychain });
      continue;
    }
    await setRegistered(
      connection.name,
      connectionEntry(connection, secretHeaders),
      options,
      machine,
    );
    const launch = launchEntry(machine.launcher, connection.name, {
      typed: typed || servers === 'servers',
      env,
    });
    changes.push({ path, value: launch });
  }
  return machine.exclusively(`file ${file}`, options, async () => {
    const snapshot = await fileSnapshot(file);
    const edited = await editJson(snapshot.bytes, file, changes);
    if (snapshot.bytes?.equals(edited)) return undefined;
    const backup = await backUpFile(snapshot, machine.clock.now());
    await replaceFile(snapshot, edited);
    return backup;
  });
}
