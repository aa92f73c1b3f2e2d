import { resolve } from 'node:path';
import type { AccountsHost } from '#host';
import type { Imports } from '#auth/accounts-service';
import { signsIn } from '#auth/account';
import { refuseTaken } from '#auth/registry';
import type { ConnectionSecrets } from '#auth/stored-secrets';
import { assistantNamed, assistants, type Assistant } from './assistants.ts';
import { inKeychain, type Connection } from './connection.ts';
import { ConfigurationError, UsageError } from './errors.ts';
import { readEntry } from './find-entry.ts';
import { editJson, memberAt } from './jsonc.ts';
import { startsLatchkey } from './launch-entry.ts';
import { readArguments, remoteWords } from './mcp-remote.ts';
import type { Options } from './options.ts';
import type { GivenEntry } from './read-connection.ts';
import { fileSnapshot } from './replace-file.ts';
import { registryFile } from './user-files.ts';

/** One entry to take over. */
export type ImportStep = {
  entry: FoundEntry;
  /** The member of the file that contains it. */
  servers: string;
  connection: Connection;
  secrets: ConnectionSecrets;
  secretHeaders: readonly string[];
  fromMcpRemote: boolean;
  /** What goes to the keychain, in words. */
  moved: string[];
};

export type ImportFile = { file: string; typed: boolean; steps: ImportStep[] };

type ImportPlan = { files: ImportFile[]; problems: { name: string; problem: string }[] };

type Place = { title: string; file: string; typed: boolean; connectsItself: boolean };

/**
 * What import would do; it has looked at files alone. Of all assistants, a file that is not what it has to be is a problem
 * beside the others.
 *
 * @throws {ConfigurationError} where the file `asked` for is not what it has to be
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
    let bytes: Buffer | undefined;
    try {
      ({ bytes } = await fileSnapshot(place.file));
      await editJson(bytes, place.file, []);
    } catch (error) {
      if (asked !== undefined || !(error instanceof ConfigurationError)) throw error;
      problems.push({ name: place.title, problem: error.message });
      continue;
    }
    if (bytes === undefined && asked !== undefined)
      throw new UsageError(`file ${place.file} not found`);
    const steps: ImportStep[] = [];
    for (const servers of ['mcpServers', 'servers'])
      for (const [key, value] of Object.entries(objectOf(await memberAt(bytes, [servers])))) {
        try {
          const entry = foundEntry(key, value, place.connectsItself, host);
          const step = entry && (await stepOf(entry, servers, place.file, options, host));
          if (!step) {
            const problem = exposedSecrets(value);
            if (problem !== undefined) problems.push({ name: key, problem });
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
    if (steps.length > 0) files.push({ file: place.file, typed: place.typed, steps });
  }
  return { files, problems };
}

function placesOf(asked: string | undefined, host: AccountsHost): Place[] {
  const place = ({ title, file, typed, connectsItself }: Assistant) => ({
    title,
    file: file(host),
    typed,
    connectsItself,
  });
  if (asked === undefined) return Object.values(assistants).map(place);
  const assistant = assistantNamed(asked);
  if (assistant) return [place(assistant)];
  const file = resolve(asked);
  const known = Object.values(assistants).find((one) => one.file(host) === file);
  return [known ? place(known) : { title: file, file, typed: false, connectsItself: false }];
}

async function stepOf(
  entry: FoundEntry,
  servers: string,
  file: string,
  options: Options,
  host: AccountsHost,
): Promise<ImportStep> {
  const { key, url, given, account, secretHeaders, inPlace, fromMcpRemote = false } = entry;
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
  return { entry, servers, connection, secrets, secretHeaders, fromMcpRemote, moved };
}

function objectOf(value: unknown): object {
  return typeof value === 'object' && value !== null ? value : {};
}

/** An entry of an assistant's file that import takes over. */
type FoundEntry = {
  /** Its name there. */
  key: string;
  url: string;
  given: GivenEntry;
  /** Whose sign-in it is, where the entry says so. */
  account?: string;
  /** The headers whose values go to the keychain. */
  secretHeaders: readonly string[];
  /** What to write instead of each secret, by its place in the entry; none: the entry starts us. */
  inPlace?: readonly (readonly string[])[];
  fromMcpRemote?: true;
};

const secretName = /authorization|cookie|token|secret|password|key/i;

/**
 * What is to be taken over of an entry: one that starts mcp-remote, one that starts us with a secret
 * beside it, one with a URL and a secret. `undefined` for all others. An assistant that connects by
 * itself would send the placeholder of the secret, so the entry has to start us.
 */
function foundEntry(
  key: string,
  value: unknown,
  connectsItself: boolean,
  host: AccountsHost,
): FoundEntry | undefined {
  const entry = isObject(value) ? value : {};
  const own = isObject(entry['env']) ? entry['env'] : {};
  const env = { ...host.env, ...onlyTexts(own) };
  const words = [entry['command'], ...(Array.isArray(entry['args']) ? entry['args'] : [])].filter(
    isText,
  );
  const ports = {
    platform: host.platform,
    env,
    readText: (path: string) => host.readText(path),
  };
  const remote = remoteWords(words);
  if (remote) {
    const { secretHeaders, logLevel: _, warnings: __, ...given } = readArguments(remote, ports);
    return { key, url: remote.url, given, secretHeaders, fromMcpRemote: true };
  }
  if (words.length > 0) {
    const ours = remoteWords(words, (word) => startsLatchkey([word]));
    if (!ours) return undefined;
    const { secretHeaders, logLevel: _, warnings: __, ...typed } = readArguments(ours, ports);
    const given = { ...typed, ...fromEnvironment(own) };
    const secret = secretHeaders.length > 0 || hasSecret(given);
    return secret ? { key, url: ours.url, given, secretHeaders } : undefined;
  }
  return fromUrl(key, entry, connectsItself);
}

function fromUrl(
  key: string,
  value: Record<string, unknown>,
  connectsItself: boolean,
): FoundEntry | undefined {
  const entry = readEntry(value, { source: '', key: '' }, []);
  if (!entry) return undefined;
  const { url, oauth, apiKey, headers, account } = entry;
  const secretHeaders = Object.entries(isObject(headers) ? headers : {})
    .filter(([name, text]) => secretName.test(name) && isText(text) && text !== inKeychain)
    .map(([name]) => name);
  const given: GivenEntry = {
    ...(oauth !== undefined && { oauth }),
    ...(apiKey !== undefined && { apiKey }),
    ...(headers !== undefined && { headers }),
  };
  if (secretHeaders.length === 0 && !hasSecret(given)) return undefined;
  const oauthPath =
    value['oauth'] === undefined ? ['auth', 'CLIENT_SECRET'] : ['oauth', 'clientSecret'];
  const clientSecret = isObject(oauth) && isSecret(oauth['clientSecret']);
  const inPlace = [
    ...(isSecret(apiKey) ? [['apiKey']] : []),
    ...(clientSecret ? [oauthPath] : []),
    ...secretHeaders.map((name) => ['headers', name]),
  ];
  return {
    key,
    url,
    given,
    secretHeaders: secretHeaders.map((name) => name.toLowerCase()),
    ...(account !== undefined && { account }),
    ...(!connectsItself && { inPlace }),
  };
}

/** The environment that an assistant hands to this program. */
function fromEnvironment(env: Record<string, unknown>): GivenEntry {
  const {
    LATCHKEY_OAUTH: oauthText,
    LATCHKEY_CLIENT_SECRET: clientSecret,
    LATCHKEY_API_KEY: apiKey,
  } = env;
  const oauth = isText(oauthText) ? parsed(oauthText) : undefined;
  const secret = isText(clientSecret) ? { clientSecret } : {};
  return {
    ...((oauth ?? isText(clientSecret)) && { oauth: { ...oauth, ...secret } }),
    ...(isText(apiKey) && { apiKey }),
  };
}

function hasSecret({ oauth, apiKey }: GivenEntry): boolean {
  return isSecret(apiKey) || (isObject(oauth) && isSecret(oauth['clientSecret']));
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function onlyTexts(value: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => isText(entry[1])),
  );
}

function isSecret(value: unknown): value is string {
  return isText(value) && value !== '' && value !== inKeychain;
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What can be taken over from assistants' files, of all of them or of one. */
export async function importableEntries(
  assistant: string | undefined,
  options: Options,
  host: AccountsHost,
): Promise<Imports> {
  const { files, problems } = await importPlan(assistant, options, host);
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

/** The connections that a person signed in to through mcp-remote, and signs in to again. */
export function signInRequired(steps: readonly ImportStep[]): string[] {
  return steps
    .filter(
      ({ fromMcpRemote, connection, secretHeaders }) =>
        fromMcpRemote && signsIn(connection) && secretHeaders.length === 0,
    )
    .map(({ connection }) => connection.name);
}

/**
 * What to do about secrets among the arguments of an entry that starts a container, as in `docker run -e TOKEN=value`.
 * Import cannot move them, because the entry starts another program. `undefined` if there are none.
 */
function exposedSecrets(entry: unknown): string | undefined {
  if (!isObject(entry) || !isText(entry['command'])) return undefined;
  if (!/(^|[\\/])(docker|podman|nerdctl)(\.exe)?$/i.test(entry['command'])) return undefined;
  const words = Array.isArray(entry['args']) ? entry['args'].filter(isText) : [];
  const variables = words.flatMap((word, at) => {
    const isValue = /^(-e|--env)$/.test(words[at - 1] ?? '');
    const setting = isValue ? word : /^(?:--env=|-e)(.+)$/.exec(word)?.[1];
    const [, name = '', value = ''] = /^(\w+)=(.+)$/.exec(setting ?? '') ?? [];
    return secretName.test(name) && isWritten(value) ? [name] : [];
  });
  const others = words.flatMap((word, at) => {
    const [, header] = /^([\w-]+): ?\S/.exec(word.includes('${') ? '' : word) ?? [];
    if (header !== undefined) return secretName.test(header) ? [header] : [];
    const [, option = '', value = words[at + 1] ?? ''] =
      /^(--?[A-Za-z][\w-]*)(?:=(.*))?$/.exec(word) ?? [];
    const isSecretOption = secretName.test(option) && !/file|path|^-e/i.test(option);
    return isSecretOption && isWritten(value) ? [option] : [];
  });
  const exposed = [...variables, ...others];
  if (exposed.length === 0) return undefined;
  const remedies = [
    ...(variables.length > 0
      ? ['leave only the name after -e, and put the value under "env"']
      : []),
    ...(others.length > 0
      ? [
          `if the image reads ${others.join(', ')} from a variable, add -e NAME, and put the value under "env"`,
        ]
      : []),
  ];
  return `its arguments contain the value of ${exposed.join(', ')}, which every program on this computer can read; ${remedies.join('; ')}`;
}

/** Whether the value of a setting is in the file: no reference to a variable, no number, no other option. */
function isWritten(value: string): boolean {
  return value !== '' && !/^(\$\{[^}]+\}|\d+|-.*)$/.test(value);
}
