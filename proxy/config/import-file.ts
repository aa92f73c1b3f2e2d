import { keepSecrets } from '#auth/stored-secrets';
import {
  looseSecrets,
  sweepSecrets,
  unheldAccounts,
  whileNobodySweeps,
  type LooseSecret,
} from '#auth/orphaned-secrets';
import { noteStored } from '#auth/secret-trial';
import type { AccountsHost } from '#auth/accounts-host';
import { setRegistered } from '#auth/registry';
import { inKeychain } from './connection.ts';
import { connectionEntry } from './connection-entry.ts';
import { launchEntry } from './launch-entry.ts';
import type { Options, OptionTexts } from './options.ts';
import { backUpFile, maskBackups } from './back-up-file.ts';
import { editJson, type JsonChange } from './edit-json.ts';
import { fileSnapshot } from './file-snapshot.ts';
import { installRecords } from './install-record.ts';
import { maskedStrings } from './masked-strings.ts';
import { memberAt } from './member-at.ts';
import { replaceFile } from './replace-file.ts';
import type { ImportFile, ImportStep } from './import-plan.ts';
import { recordsFolder } from './install-launch.ts';
import { launchEnvironment } from './launch-environment.ts';
import { movedSecretsMask } from './moved-secrets.ts';

/**
 * Secrets first, the connection next, the file last: whatever fails, nothing is lost, and a secret that
 * no connection leads to is swept by whoever comes next. The backup, where the file was changed; neither that
 * one nor one from earlier holds a secret that was moved.
 */
export async function importFile(
  found: ImportFile,
  options: Options,
  given: OptionTexts,
  host: AccountsHost,
): Promise<string | undefined> {
  const loose = looseSecrets(options, host);
  await sweepSecrets(options, host);
  return whileNobodySweeps(options, host, async () => {
    const noted = await leftTo(found.steps, options, host);
    await loose.note(noted);
    const backup = await takeOver(found, options, given, host);
    await loose.settled(noted);
    return backup;
  });
}

async function takeOver(
  { file, typed, steps }: ImportFile,
  options: Options,
  given: OptionTexts,
  host: AccountsHost,
): Promise<string | undefined> {
  const store = await host.store(options);
  const env = launchEnvironment(options, given, host);
  const changes: JsonChange[] = [];
  for (const { connection, secrets, secretHeaders, entry, servers } of steps) {
    await keepSecrets(connection, secrets, store);
    await noteStored(connection, secrets, options, host);
    const path = [servers, entry.key];
    if (entry.inPlace) {
      for (const place of entry.inPlace)
        changes.push({ path: [...path, ...place], value: inKeychain });
      continue;
    }
    await setRegistered(connection.name, connectionEntry(connection, secretHeaders), options, host);
    const launch = launchEntry(host.launcher, connection.name, {
      typed: typed || servers === 'servers',
      env,
    });
    changes.push({ path, value: launch });
  }
  return host.exclusively(`file ${file}`, options, async () => {
    const snapshot = await fileSnapshot(file);
    const edited = await editJson(snapshot.bytes, file, changes);
    if (snapshot.bytes?.equals(edited)) return undefined;
    const { bytes } = snapshot;
    const entries = await Promise.all(
      steps.map(({ entry, servers }) => memberAt(bytes, [servers, entry.key])),
    );
    const mask = movedSecretsMask(steps, entries);
    // The keychain has the secrets by now, and until its end the file has them, too.
    await maskBackups(snapshot, mask, installRecords(recordsFolder(options, host)));
    const kept = bytes && { ...snapshot, bytes: await maskedStrings(bytes, mask) };
    const backup = await backUpFile(kept ?? snapshot, host.clock.now());
    await replaceFile(snapshot, edited);
    return backup;
  });
}

/** Where the keychain will hold what these steps move there, and does not hold anything yet. */
async function leftTo(
  steps: readonly ImportStep[],
  options: Options,
  host: AccountsHost,
): Promise<LooseSecret[]> {
  const noted: LooseSecret[] = [];
  for (const { connection, secretHeaders } of steps) {
    const left = secretHeaders.map((header) => [header, inKeychain]);
    const headers = { ...connection.headers, ...Object.fromEntries(left) };
    for (const account of await unheldAccounts({ ...connection, headers }, options, host))
      noted.push({ account, file: connection.source });
  }
  return noted;
}
