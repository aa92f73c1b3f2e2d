import type { AccountsHost } from '#auth/accounts-host';
import { inKeychain } from './connection.ts';
import type { GivenEntry } from './read-connection.ts';
import { startsLatchkey } from './launch-entry.ts';
import { readEntry } from './read-entry.ts';
import { readArguments } from './read-arguments.ts';
import { remoteWords } from './remote-words.ts';

/** An entry of an assistant's file that import takes over. */
export type FoundEntry = {
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
  /** How mcp-remote names the connection in its files. */
  remoteHash?: string;
};

const secretName = /authorization|cookie|token|secret|password|key/i;

/**
 * What is to be taken over of an entry: one that starts mcp-remote, one that starts us with a secret
 * beside it, one with a URL and a secret. `undefined` for all others. An assistant that connects by
 * itself would send the word that stands for the secret, so it is to start us from now on.
 */
export function foundEntry(
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
    const {
      hash,
      secretHeaders,
      logLevel: _,
      warnings: __,
      ...given
    } = readArguments(remote, ports);
    return { key, url: remote.url, given, secretHeaders, remoteHash: hash };
  }
  if (words.length > 0) {
    const ours = remoteWords(words, (word) => startsLatchkey([word]));
    if (!ours) return undefined;
    const {
      secretHeaders,
      logLevel: _,
      warnings: __,
      hash: ___,
      ...typed
    } = readArguments(ours, ports);
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
