import { isObject, isText, membersOf, parseObject } from 'latchkey-mcp/json-value';
import type { FilesHost } from '#host';
import type { EntryShape } from '#config/assistants';
import { keychainWord } from '#config/secret';
import { UsageError } from '#config/errors';
import { readEntry } from '#config/find-entry';
import { startsLatchkey } from '#config/launch-entry';
import { readArguments, remoteWords } from '#config/mcp-remote';
import type { GivenEntry } from '#config/read-connection';

/** An entry of an assistant's file that can be imported. */
export type FoundEntry = {
  /** Its name in the file. */
  key: string;
  url: string;
  given: GivenEntry;
  /** Distinguishes several sign-ins to one URL, if the entry has it. */
  account?: string;
  /** The headers whose values go to the keychain. */
  secretHeaders: readonly string[];
  /** The paths in the entry of secrets to replace; absent if the whole entry is replaced by one that starts Latchkey. */
  inPlace?: readonly (readonly string[])[];
  fromMcpRemote?: true;
};

/** An entry in the form that most assistants use. */
export function plainEntry(value: unknown, shape: EntryShape): unknown {
  if (!isObject(value)) return value;
  if (shape === 'opencode') {
    const { command, environment, oauth, ...rest } = value;
    const [program, ...args] = Array.isArray(command) ? command : [];
    const { scope, ...client } = membersOf(oauth);
    return {
      ...rest,
      ...(program !== undefined && { command: program, args }),
      ...(environment !== undefined && { env: environment }),
      ...(isObject(oauth) && { oauth: { ...client, ...(isText(scope) && { scopes: scope }) } }),
    };
  }
  const { http_headers: headers, ...rest } = value;
  return headers === undefined ? value : { ...rest, headers };
}

/** The members of an entry that describe the connection and how the program is started. */
const connectionMembers = new Set(
  `type url httpUrl serverUrl headers http_headers env_http_headers bearer_token_env_var oauth oauth_resource scopes auth
   apiKey account transport command args env env_vars environment cwd allowTools denyTools changedTools`.split(
    /\s+/,
  ),
);

export function settingsOf(entry: unknown): Record<string, unknown> {
  const members = Object.entries(membersOf(entry));
  return Object.fromEntries(members.filter(([name]) => !connectionMembers.has(name)));
}

/** The settings of an entry that refer to variables or files, which only the assistant reads. */
function filledInSettings(entry: Record<string, unknown>): string[] {
  const own = ['bearer_token_env_var', 'env_http_headers'].filter((name) => name in entry);
  const [inText] = /\{(?:env|file):[^}]*\}/.exec(JSON.stringify(entry)) ?? [];
  return inText === undefined ? own : [...own, inText];
}

const secretName = /authorization|cookie|token|secret|password|key/i;

/**
 * Reads an entry that can be imported: it starts mcp-remote, starts Latchkey with a secret, or has a URL and a secret. Returns
 * `undefined` for all others. An assistant that connects directly would send the placeholder of the secret, so its entry is
 * changed to start Latchkey.
 *
 * @throws {UsageError} if the entry also has a value that only the assistant can fill in
 */
export function foundEntry(
  key: string,
  value: unknown,
  connectsItself: boolean,
  host: FilesHost,
): FoundEntry | undefined {
  const entry = membersOf(value);
  const own = membersOf(entry['env']);
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

/** Whether the text is a secret, and not the name of a variable or file that contains it. */
function isWrittenSecret(text: unknown): boolean {
  return isText(text) && text !== keychainWord && !/\{(?:env|file):[^}]*\}/.test(text);
}

function fromUrl(
  key: string,
  value: Record<string, unknown>,
  connectsItself: boolean,
): FoundEntry | undefined {
  const entry = readEntry(value, { source: '', key: '' }, []);
  if (!entry) return undefined;
  const { url, oauth, apiKey, headers, account } = entry;
  const secretHeaders = Object.entries(membersOf(headers))
    .filter(([name, text]) => secretName.test(name) && isWrittenSecret(text))
    .map(([name]) => name);
  const given: GivenEntry = {
    ...(oauth !== undefined && { oauth }),
    ...(apiKey !== undefined && { apiKey }),
    ...(headers !== undefined && { headers }),
  };
  if (secretHeaders.length === 0 && !hasSecret(given)) return undefined;
  const [filled] = filledInSettings(value);
  if (filled !== undefined)
    throw new UsageError(
      `it contains a secret, and ${filled}, which only the assistant can read; replace that by its value, then try again`,
    );
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

/** Settings in the environment that an assistant passes to this program. */
function fromEnvironment(env: Record<string, unknown>): GivenEntry {
  const {
    LATCHKEY_OAUTH: oauthText,
    LATCHKEY_CLIENT_SECRET: clientSecret,
    LATCHKEY_API_KEY: apiKey,
  } = env;
  const oauth = isText(oauthText) ? parseObject(oauthText) : undefined;
  const secret = isText(clientSecret) ? { clientSecret } : {};
  return {
    ...((oauth ?? isText(clientSecret)) && { oauth: { ...oauth, ...secret } }),
    ...(isText(apiKey) && { apiKey }),
  };
}

function hasSecret({ oauth, apiKey }: GivenEntry): boolean {
  return isSecret(apiKey) || (isObject(oauth) && isSecret(oauth['clientSecret']));
}

function onlyTexts(value: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => isText(entry[1])),
  );
}

function isSecret(value: unknown): value is string {
  return isText(value) && value !== '' && value !== keychainWord;
}

/**
 * The message about secrets among the arguments of an entry that starts a container, as in `docker run -e TOKEN=value`.
 * Import cannot move them, because the entry starts another program. `undefined` if there are none.
 */
export function exposedSecrets(entry: unknown): string | undefined {
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

/** The variables with secrets that an assistant passes to a program other than ours, so that import leaves them in the file. */
export function keptVariables(entry: unknown): string[] {
  if (!isObject(entry) || !isText(entry['command'])) return [];
  const { command, args, env } = entry;
  if (startsLatchkey([command, ...(Array.isArray(args) ? args.filter(isText) : [])])) return [];
  return Object.entries(onlyTexts(membersOf(env)))
    .filter(([name]) => secretName.test(name) && !/file|path/i.test(name))
    .filter(([, value]) => isWrittenSecret(value) && isWritten(value))
    .map(([name]) => name);
}

/** Whether the value of a setting is in the file: not a reference to a variable, not a number, not another option. */
function isWritten(value: string): boolean {
  return value !== '' && !/^(\$\{[^}]+\}|\d+|-.*)$/.test(value);
}
