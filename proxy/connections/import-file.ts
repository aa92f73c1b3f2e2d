import { isText, membersOf } from 'latchkey-mcp/json-value';
import type { BoundHost } from './connections-host.ts';
import type { Imported } from './accounts-service.ts';
import {
  orphanedSecrets,
  cleanUpSecrets,
  emptyAccounts,
  withoutCleanup,
  type OrphanedSecret,
} from './orphaned-secrets.ts';
import { setRegistered } from './registry.ts';
import { noteStored } from './secret-trial.ts';
import { storeSecrets } from './stored-secrets.ts';
import { assistantFiles } from '#config/assistants';
import { connectionEntry } from '#config/connection';
import { inKeychain, keychainWord } from '#config/secret';
import { editFile, maskedFile, valueAt } from '#config/edit-file';
import { UsageError } from '#config/errors';
import { backUpFile, hashOf, maskBackups, type InstallRecord } from './file-backups.ts';
import { plainEntry } from './import-entry.ts';
import { importPlan, signInRequired, type ImportFile, type ImportStep } from './import-plan.ts';
import { recordsOf } from './install.ts';
import type { JsonChange } from '#config/jsonc';
import { shapedEntry } from '#config/launch-entry';
import { fileSnapshot, replaceFile } from '#config/replace-file';
import { stableLauncher } from './stable-launcher.ts';

/**
 * Imports one entry of a file, or all that can be imported.
 *
 * @throws {UsageError} if there is none with that name
 */
export async function importEntry(
  path: string,
  key: string | undefined,
  env: Record<string, string>,
  host: BoundHost,
): Promise<Imported> {
  const { files, problems } = await importPlan(path, host);
  const [found] = files;
  const steps = (found?.steps ?? []).filter(({ entry }) => key === undefined || entry.key === key);
  if (!found || steps.length === 0) {
    const problem = problems.find(({ name }) => name === key)?.problem;
    throw new UsageError(
      problem ?? `${path} has no entry with that name to import`,
      'list the entries that can be imported',
    );
  }
  const backup = await importFile({ ...found, steps }, env, host);
  return {
    file: found.file,
    ...(backup !== undefined && { backup }),
    signInRequired: signInRequired(steps),
  };
}

/**
 * Stores secrets first, then the connection, then the file. If a step fails, nothing is lost, and the next operation
 * removes secrets that no connection uses. Returns the backup, if the file was changed; no backup of the file
 * contains a secret that was moved.
 */
export async function importFile(
  found: ImportFile,
  env: Record<string, string>,
  host: BoundHost,
): Promise<string | undefined> {
  const orphaned = orphanedSecrets(host.options, host);
  await cleanUpSecrets(host);
  return withoutCleanup(host, async () => {
    const noted = await targetAccounts(found.steps, host);
    await orphaned.note(noted);
    const backup = await importSteps(found, env, host);
    await orphaned.settled(noted);
    return backup;
  });
}

async function importSteps(
  { file, shape, steps }: ImportFile,
  env: Record<string, string>,
  host: BoundHost,
): Promise<string | undefined> {
  const store = await host.store();
  const launcher = await stableLauncher(host);
  const changes: JsonChange[] = [];
  for (const { connection, secrets, secretHeaders, settings, entry, path } of steps) {
    await storeSecrets(connection, secrets, store);
    await noteStored(connection, secrets, host);
    if (entry.inPlace) {
      for (const place of entry.inPlace)
        changes.push({ path: [...path, ...place], value: keychainWord });
      continue;
    }
    await setRegistered(connection.name, connectionEntry(connection, secretHeaders), host);
    // VS Code requires this member, in any file.
    const own = shape === 'plain' && path[0] === 'servers' ? 'typed' : shape;
    const launch = shapedEntry(launcher, connection.name, { shape: own, env });
    changes.push({ path, value: { ...launch, ...settings } });
  }
  return host.exclusively(`file ${file}`, async () => {
    const snapshot = await fileSnapshot(file);
    const edited = await editFile(snapshot.bytes, file, changes);
    if (snapshot.bytes?.equals(edited)) return undefined;
    const { bytes } = snapshot;
    const written = steps.map(async ({ path }) => valueAt(bytes, file, path));
    const entries = (await Promise.all(written)).map((entry) => plainEntry(entry, shape));
    const mask = movedSecretsMask(steps, entries);
    // From here on, the keychain has the secrets. The file has them until it is replaced.
    await maskBackups(snapshot, mask, recordsOf(host));
    const kept = bytes && { ...snapshot, bytes: await maskedFile(bytes, file, mask) };
    const backup = await backUpFile(kept ?? snapshot, host.clock.now());
    await replaceFile(snapshot, edited);
    // The program's copy is not deleted while an entry uses it. For an entry in another file, only this record shows that.
    const isOwn = assistantFiles(host).includes(file);
    const record: InstallRecord = { after: hashOf(edited), masked: true };
    for (const { entry } of isOwn ? [] : steps.filter((step) => !step.entry.inPlace))
      await recordsOf(host).keep(snapshot.realPath, entry.key, record);
    return backup;
  });
}

/** The accounts of the keychain in which these steps will store secrets, and which are still empty. */
async function targetAccounts(
  steps: readonly ImportStep[],
  host: BoundHost,
): Promise<OrphanedSecret[]> {
  const noted: OrphanedSecret[] = [];
  for (const { connection, secretHeaders } of steps) {
    const left = secretHeaders.map((header) => [header, inKeychain]);
    const headers = { ...connection.headers, ...Object.fromEntries(left) };
    for (const account of await emptyAccounts({ ...connection, headers }, host))
      noted.push({ account, file: connection.source });
  }
  return noted;
}

/** In some headers, an authentication scheme precedes the secret, as in `Bearer TOKEN`. */
const scheme = /^\w[\w-]* +(\S+)$/;

/**
 * Replaces the secrets that `steps` move to the keychain, in all strings and comments of a file: the secrets themselves, also
 * after a scheme or in JSON in a string, and the variables from which an entry composes them. `entries` are the entries as they
 * are in the file.
 */
function movedSecretsMask(
  steps: readonly ImportStep[],
  entries: readonly unknown[],
): (text: string) => string {
  const secrets = steps.flatMap(({ secrets: { apiKeySecret, clientSecret, headerSecrets = {} } }) =>
    [apiKeySecret, clientSecret, ...Object.values(headerSecrets)].filter(isText),
  );
  const parts = [
    ...secrets.map((secret) => scheme.exec(secret)?.[1] ?? ''),
    ...entries.flatMap((entry) => filledIn(entry, secrets)),
  ];
  const known = [...new Set([...secrets, ...parts])]
    .filter((secret) => secret !== '' && secret !== keychainWord)
    .sort((one, other) => other.length - one.length);
  const headers = new Set(steps.flatMap(({ secretHeaders }) => secretHeaders));

  return function mask(text) {
    if (known.length === 0) return text;
    const [, name = ''] = /^([\w-]+):/.exec(text) ?? [];
    if (headers.has(name.toLowerCase())) return `${name}: ${keychainWord}`;
    const inside = /^\s*[{[]/.test(text) ? maskedInside(text, mask) : undefined;
    return inside ?? known.reduce((rest, secret) => rest.replaceAll(secret, keychainWord), text);
  };
}

/** JSON in a string may escape characters of a secret. */
function maskedInside(text: string, mask: (text: string) => string): string | undefined {
  try {
    let changed = false;
    const masked = JSON.stringify(JSON.parse(text), (_, value: unknown) => {
      if (!isText(value)) return value;
      const safe = mask(value);
      changed ||= safe !== value;
      return safe;
    });
    return changed ? masked : undefined;
  } catch {
    return undefined;
  }
}

/** The variables of an entry that its arguments insert into a secret, as in `Bearer ${TOKEN}`. */
function filledIn(entry: unknown, secrets: readonly string[]): string[] {
  const { env, args } = membersOf(entry);
  const words = JSON.stringify(args ?? []);
  return Object.entries(membersOf(env)).flatMap(([name, value]) =>
    isText(value) && words.includes(`\${${name}}`) && secrets.some((one) => one.includes(value))
      ? [value]
      : [],
  );
}
