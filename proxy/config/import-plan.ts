import type { AccountsHost } from '#auth/accounts-host';
import { resolve } from 'node:path';
import type { ConnectionSecrets } from '#auth/stored-secrets';
import { assistantNamed, assistants, type Assistant } from './assistants.ts';
import { ConfigurationError } from './configuration-error.ts';
import { inKeychain, type Connection } from './connection.ts';
import type { Options } from './options.ts';
import { registryFile } from './registry-file.ts';
import { UsageError } from './usage-error.ts';
import { editJson } from './edit-json.ts';
import { fileSnapshot } from './file-snapshot.ts';
import { memberAt } from './member-at.ts';
import { foundEntry, type FoundEntry } from './found-entry.ts';
import { refuseTaken } from '#auth/registry';

/** One entry to take over. */
export type ImportStep = {
  entry: FoundEntry;
  /** The member of the file that it stands in. */
  servers: string;
  connection: Connection;
  secrets: ConnectionSecrets;
  secretHeaders: readonly string[];
  remoteHash: string | undefined;
  /** What goes to the keychain, in words. */
  moved: string[];
};

export type ImportFile = { file: string; typed: boolean; steps: ImportStep[] };

export type ImportPlan = { files: ImportFile[]; problems: { name: string; problem: string }[] };

type Place = { file: string; typed: boolean; connectsItself: boolean };

/**
 * What import would do; it has looked at files alone.
 *
 * @throws {ConfigurationError} where a file is not what it has to be
 */
export async function importPlan(
  asked: string | undefined,
  options: Options,
  host: AccountsHost,
): Promise<ImportPlan> {
  const files: ImportFile[] = [];
  const problems: ImportPlan['problems'] = [];
  const names = new Map<string, string>();
  for (const place of placesOf(asked, host)) {
    const { bytes } = await fileSnapshot(place.file);
    if (bytes === undefined && asked !== undefined)
      throw new UsageError(`there is no file ${place.file}`);
    await editJson(bytes, place.file, []);
    const steps: ImportStep[] = [];
    for (const servers of ['mcpServers', 'servers'])
      for (const [key, value] of Object.entries(objectOf(await memberAt(bytes, [servers])))) {
        try {
          const entry = foundEntry(key, value, place.connectsItself, host);
          const step = entry && (await stepOf(entry, servers, place.file, options, host));
          if (!step) continue;
          const { name, url } = step.connection;
          if ((names.get(name) ?? url) !== url)
            throw new UsageError(`another entry calls ${names.get(name)} by that name`);
          names.set(name, url);
          steps.push(step);
        } catch (error) {
          if (!(error instanceof ConfigurationError || error instanceof UsageError)) throw error;
          problems.push({ name: key, problem: error.message });
        }
      }
    if (steps.length > 0) files.push({ file: place.file, typed: place.typed, steps });
  }
  return { files, problems };
}

function placesOf(asked: string | undefined, host: AccountsHost): Place[] {
  const place = ({ file, typed, connectsItself }: Assistant) => ({
    file: file(host),
    typed,
    connectsItself,
  });
  if (asked === undefined) return Object.values(assistants).map(place);
  const assistant = assistantNamed(asked);
  if (assistant) return [place(assistant)];
  const file = resolve(asked);
  const known = Object.values(assistants).find((one) => one.file(host) === file);
  return [known ? place(known) : { file, typed: false, connectsItself: false }];
}

async function stepOf(
  entry: FoundEntry,
  servers: string,
  file: string,
  options: Options,
  host: AccountsHost,
): Promise<ImportStep> {
  const { key, url, given, account, secretHeaders, inPlace, remoteHash } = entry;
  const whose = account === undefined ? {} : { account };
  const read = await host.readConnection(url, options, given);
  const name =
    key
      .replaceAll(/[^\w.-]+/g, '-')
      .replace(/^[^A-Za-z0-9]+/, '')
      .slice(0, 64) || 'server';
  const connection: Connection = inPlace
    ? { ...read, ...whose, name: key, source: file }
    : { ...read, name, account: name, source: registryFile(host) };
  if (!inPlace) await refuseTaken(connection, options, host);
  const { credentials, headers = {} } = connection;
  const apiKeySecret = credentials.kind === 'api_key' ? credentials.apiKeySecret : inKeychain;
  const clientSecret = credentials.kind === 'api_key' ? undefined : credentials.clientSecret;
  const moving = secretHeaders.filter((header) => (headers[header] ?? inKeychain) !== inKeychain);
  const secrets = {
    ...(apiKeySecret !== inKeychain && { apiKeySecret }),
    ...(clientSecret !== undefined && clientSecret !== inKeychain && { clientSecret }),
    ...(moving.length > 0 && {
      headerSecrets: Object.fromEntries(moving.map((header) => [header, headers[header] ?? ''])),
    }),
  };
  const moved = [
    ...('apiKeySecret' in secrets ? ['API key'] : []),
    ...('clientSecret' in secrets ? ['client secret'] : []),
    ...moving.map((header) => `header ${header}`),
  ];
  return { entry, servers, connection, secrets, secretHeaders, remoteHash, moved };
}

function objectOf(value: unknown): object {
  return typeof value === 'object' && value !== null ? value : {};
}
