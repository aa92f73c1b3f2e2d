import { resolve } from 'node:path';
import type { BoundHost } from './connections-host.ts';
import type { Imports } from './accounts-service.ts';
import { signsIn } from '#auth/account';
import { refuseTaken } from './registry.ts';
import type { ConnectionSecrets } from './stored-secrets.ts';
import {
  assistantNamed,
  assistants,
  filesOf,
  hasOwnFormat,
  type Assistant,
  type ServersMember,
  type EntryShape,
} from '#config/assistants';
import type { Connection } from '#config/connection';
import { isInKeychain } from '#config/secret';
import { ConfigurationError, UsageError } from '#config/errors';
import {
  exposedSecrets,
  foundEntry,
  keptVariables,
  plainEntry,
  settingsOf,
  type FoundEntry,
} from './import-entry.ts';
import { editFile, valueAt } from '#config/edit-file';
import { entriesIn } from '#config/launch-entry';
import { fileSnapshot } from '#config/replace-file';
import { registryFile } from '#config/user-files';
import type { UserHost } from '#host';

export type ImportStep = {
  entry: FoundEntry;
  /** Its path in the file. */
  path: readonly string[];
  /** The entry's settings besides the connection, which are for the assistant. */
  settings: Record<string, unknown>;
  connection: Connection;
  secrets: ConnectionSecrets;
  secretHeaders: readonly string[];
  fromMcpRemote: boolean;
  /** The secrets that are moved to the keychain, described for a person. */
  moved: string[];
};

export type ImportFile = { file: string; shape: EntryShape; steps: ImportStep[] };

/** `kept`: the variables with secrets of entries that start other programs, which stay in the files. */
export type ImportPlan = {
  files: ImportFile[];
  problems: { name: string; problem: string }[];
  kept: { name: string; variables: readonly string[] }[];
};

type Place = Pick<Assistant, 'title' | 'shape' | 'connectsItself'> & {
  file: string;
  servers: readonly ServersMember[];
};

/**
 * Plans an import. Only reads files. If all assistants are imported, a file that cannot be parsed is reported as a problem.
 *
 * @throws {ConfigurationError} if the file `from` cannot be parsed
 */
export async function importPlan(from: string | undefined, host: BoundHost): Promise<ImportPlan> {
  const files: ImportFile[] = [];
  const problems: ImportPlan['problems'] = [];
  const kept: ImportPlan['kept'] = [];
  const names = new Map<string, string>();
  for (const place of placesOf(from, host)) {
    let bytes: Buffer | undefined;
    try {
      ({ bytes } = await fileSnapshot(place.file));
      await editFile(bytes, place.file, []);
    } catch (error) {
      if (from !== undefined || !(error instanceof ConfigurationError)) throw error;
      problems.push({ name: place.title, problem: error.message });
      continue;
    }
    if (bytes === undefined && from !== undefined)
      throw new UsageError(
        `${place.file} is neither a file nor an assistant`,
        'name a file, or an assistant as in latchkey import cursor',
      );
    const steps: ImportStep[] = [];
    for (const { path, key, entry: value } of await entriesOf(bytes, place)) {
      try {
        const plain = plainEntry(value, place.shape);
        const entry = foundEntry(key, plain, place.connectsItself, host);
        const found = entry && (await stepOf(entry, path, place.file, host));
        const step = found && { ...found, settings: settingsOf(value) };
        if (!step) {
          const problem = exposedSecrets(plain);
          if (problem !== undefined) problems.push({ name: key, problem });
          const variables = keptVariables(plain);
          if (variables.length > 0) kept.push({ name: key, variables });
          continue;
        }
        const { name, url } = step.connection;
        if ((names.get(name) ?? url) !== url)
          throw new UsageError(`another entry uses that name for ${names.get(name)}`);
        names.set(name, url);
        steps.push(step);
      } catch (error) {
        if (!(error instanceof ConfigurationError || error instanceof UsageError)) throw error;
        problems.push({ name: key, problem: error.message });
      }
    }
    if (steps.length > 0) files.push({ file: place.file, shape: place.shape, steps });
  }
  return { files, problems, kept };
}

async function entriesOf(bytes: Buffer | undefined, { file, servers }: Place) {
  const members = servers.map(async (member) =>
    entriesIn({ [member]: await valueAt(bytes, file, [member]) }, member),
  );
  return (await Promise.all(members)).flat();
}

function placesOf(from: string | undefined, host: UserHost): Place[] {
  if (from === undefined)
    return Object.values(assistants).flatMap((assistant) => placesFor(assistant, host));
  const assistant = assistantNamed(from);
  if (assistant) return placesFor(assistant, host);
  const file = resolve(from);
  const known = Object.values(assistants).flatMap((one) => placesFor(one, host));
  const ownPlace = known.find((one) => one.file === file);
  if (ownPlace) return [ownPlace];
  // The files of these assistants in projects have the same names.
  const likely = file.endsWith('.toml')
    ? assistants.codex
    : /[\\/]opencode\.jsonc?$/.test(file) && assistants.opencode;
  if (likely) return [placeIn(file, likely)];
  return [{ title: file, file, shape: 'plain', connectsItself: false, servers: bothMembers }];
}

const bothMembers = ['mcpServers', 'servers'] as const;

/** The assistant's own files. */
function placesFor(assistant: Assistant, host: UserHost): Place[] {
  return filesOf(assistant, host).map((file) => placeIn(file, assistant));
}

function placeIn(file: string, assistant: Assistant): Place {
  const { title, shape, connectsItself, servers } = assistant;
  const members = hasOwnFormat(assistant) ? [servers] : bothMembers;
  return { title, file, shape, connectsItself, servers: members };
}

async function stepOf(
  entry: FoundEntry,
  path: readonly string[],
  file: string,
  host: BoundHost,
): Promise<Omit<ImportStep, 'settings'>> {
  const { key, url, given, account, secretHeaders, inPlace, fromMcpRemote = false } = entry;
  const whose = account === undefined ? {} : { account };
  const read = await host.readConnection(url, given);
  const name =
    key
      .replaceAll(/[^\w.-]+/g, '-')
      .replace(/^[^A-Za-z0-9]+/, '')
      .slice(0, 64) || 'server';
  const connection: Connection = inPlace
    ? { ...read, ...whose, name: key, source: file }
    : { ...read, name, account: name, source: registryFile(host) };
  if (!inPlace) await refuseTaken(connection, host);
  const { credentials, headers = {} } = connection;
  const apiKey = credentials.kind === 'api_key' ? credentials.apiKeySecret : undefined;
  const secret = credentials.kind === 'api_key' ? undefined : credentials.clientSecret;
  const moving = secretHeaders.flatMap((header) => {
    const value = headers[header];
    return typeof value === 'string' ? [[header, value] as const] : [];
  });
  const secrets = {
    ...(apiKey !== undefined && !isInKeychain(apiKey) && { apiKeySecret: apiKey }),
    ...(secret !== undefined && !isInKeychain(secret) && { clientSecret: secret }),
    ...(moving.length > 0 && { headerSecrets: Object.fromEntries(moving) }),
  };
  const moved = [
    ...('apiKeySecret' in secrets ? ['API key'] : []),
    ...('clientSecret' in secrets ? ['client secret'] : []),
    ...moving.map(([header]) => `header ${header}`),
  ];
  return { entry, path, connection, secrets, secretHeaders, fromMcpRemote, moved };
}

/** The entries that can be imported from the files of all assistants, or of one. */
export async function importableEntries(
  assistant: string | undefined,
  host: BoundHost,
): Promise<Imports> {
  const { files, problems } = await importPlan(assistant, host);
  const entries = files.flatMap(({ file, steps }) =>
    steps.map(({ entry, connection: { name, url }, moved, fromMcpRemote }) => ({
      file,
      entry: entry.key,
      name,
      url,
      moved,
      fromMcpRemote,
    })),
  );
  return { entries, problems };
}

/** The connections that used the sign-in of mcp-remote, so that the person has to sign in again. */
export function signInRequired(steps: readonly ImportStep[]): string[] {
  return steps
    .filter(
      ({ fromMcpRemote, connection, secretHeaders }) =>
        fromMcpRemote && signsIn(connection) && secretHeaders.length === 0,
    )
    .map(({ connection }) => connection.name);
}
