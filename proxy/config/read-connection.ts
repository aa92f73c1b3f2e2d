import { isObject, membersOf } from 'latchkey-mcp/json-value';
import type { UserHost, ReadText } from '#host';
import { webUrl, webUrlProblem } from '#transport/web-url';
import { type Connection, transports, type ToolSettings } from './connection.ts';
import { ConfigurationError, UsageError, type Problem } from './errors.ts';
import { findEntry, type Entry, type ToolTexts } from './find-entry.ts';
import { oauthFieldList, type OAuthFieldName } from './oauth-fields.ts';
import { readSecret, type Secret } from './secret.ts';
import { readCredentials } from './read-credentials.ts';
import { userFiles } from './user-files.ts';

/** The settings of a connection on the command line, besides its name or URL. They take precedence over the file. */
export type GivenEntry = Partial<
  Pick<Entry, 'oauth' | 'apiKey' | 'headers' | 'denyTools' | 'transport'>
>;

type ReadConnectionOptions = {
  /** The settings on the command line of this run. */
  given?: GivenEntry;
  /** Reads the arguments of an entry that starts this program, including the flags of mcp-remote. */
  readWords?: (words: readonly string[], env: Record<string, string>) => Promise<GivenEntry>;
};

/**
 * Reads the connection that `target` means: a URL, or the name of an entry in a configuration file. The environment
 * (`LATCHKEY_OAUTH`, `LATCHKEY_CLIENT_ID`, `LATCHKEY_CLIENT_SECRET`, `LATCHKEY_SCOPES`, `LATCHKEY_API_KEY`) takes precedence
 * over the file, and our environment over that of the entry.
 *
 * @throws {ConfigurationError} with all problems
 */
export async function readConnection(
  target: string,
  configFile: string | undefined,
  host: UserHost,
  readText: ReadText,
  { given = {}, readWords }: ReadConnectionOptions = {},
): Promise<Connection> {
  const problems: Problem[] = [];
  const found: Entry = /^[a-z][a-z0-9+.-]*:\/\//i.test(target)
    ? { source: 'command line', key: 'URL', url: target, oauthKey: 'oauth', env: {} }
    : await findEntry(target, { configFile, userFiles: userFiles(host) }, readText);
  const typed = found.words && (await typedOf(found, found.words, readWords));
  const entry = { ...found, ...typed, ...given };
  if (!webUrl(entry.url))
    problems.push({
      source: entry.source,
      key: entry.key,
      problem: webUrlProblem(entry.url),
    });

  const setting = (name: string) => host.env[name] || entry.env[name] || undefined;
  const oauthText = setting('LATCHKEY_OAUTH');
  const written = oauthText === undefined ? entry.oauth : parse(oauthText, entry, problems);
  const { clientSecret, ...single } = variablesOf(setting);
  const oauth = Object.keys(single).length > 0 ? { ...membersOf(written), ...single } : written;
  const apiKey = setting('LATCHKEY_API_KEY');
  if (apiKey === undefined && entry.apiKey !== undefined && entry.oauth !== undefined)
    problems.push({
      source: entry.source,
      key: entry.key,
      problem: 'has both apiKey and oauth; remove one',
    });
  const credentials = readCredentials(
    {
      ...(oauth !== undefined && { oauth }),
      at:
        oauthText === undefined
          ? { source: entry.source, key: entry.oauthKey }
          : { source: 'environment', key: 'LATCHKEY_OAUTH' },
      ...((apiKey ?? entry.apiKey) !== undefined && { apiKey: apiKey ?? entry.apiKey }),
      ...(clientSecret !== undefined && { clientSecret }),
    },
    problems,
  );
  const extras = readExtras(entry, setting, problems);
  const tools = readToolSettings(entry, entry, setting, problems);
  if (problems.length > 0) throw new ConfigurationError(problems);
  const { url, source, account } = entry;
  const named = source === configFile ? { configFile } : {};
  const whose = account === undefined ? {} : { account };
  return { name: target, url, source, ...named, ...whose, credentials, ...extras, ...tools };
}

/** @throws {ConfigurationError} if the arguments are invalid, because they are in the configuration */
async function typedOf(
  { source, key, env }: Entry,
  words: readonly string[],
  readWords: ReadConnectionOptions['readWords'],
): Promise<GivenEntry | undefined> {
  try {
    return await readWords?.(words, env);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new ConfigurationError([{ source, key, problem: error.message }]);
  }
}

/** The members of `oauth` that have an environment variable. */
function variablesOf(
  setting: (name: string) => string | undefined,
): Partial<Record<OAuthFieldName, string>> {
  const given = oauthFieldList.flatMap(([name, { env }]) => {
    const value = env === undefined ? undefined : setting(env);
    return value === undefined ? [] : [[name, value]];
  });
  return Object.fromEntries(given);
}

function parse(text: string, { source }: Entry, problems: Problem[]): unknown {
  try {
    return JSON.parse(text);
  } catch {
    problems.push({
      source,
      key: 'LATCHKEY_OAUTH',
      problem: 'is not valid JSON; check its quotes',
    });
    return undefined;
  }
}

type Extras = Pick<Connection, 'headers' | 'transport'>;

/** RFC 9110 §5.1 for names. For values, the characters of §5.5 that every server accepts. */
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Headers that the transport sets. Those in a configuration are ignored. */
const ownHeaders =
  /^(host|content-length|content-type|transfer-encoding|connection|accept|mcp-session-id|mcp-protocol-version)$/;

/**
 * The settings of an entry besides URL and credential. `${NAME}` in the value of a header is replaced by a variable of the
 * environment, and stays if that is not set. Everything invalid is added to `problems`, never with the value itself.
 */
function readExtras(
  { source, key, headers, transport }: Entry,
  setting: (name: string) => string | undefined,
  problems: Problem[],
): Extras {
  const complain = (name: string, problem: string) =>
    problems.push({ source, key: `${key}.${name}`, problem });
  const read: Record<string, Secret> = {};
  if (headers !== undefined && !isObject(headers)) complain('headers', 'is not an object');
  for (const [name, value] of Object.entries(membersOf(headers))) {
    const filled = typeof value === 'string' ? expanded(value, setting) : '';
    const fine = typeof value === 'string' && headerName.test(name) && headerValue.test(filled);
    if (!fine) complain(`headers.${name}`, 'is not a valid HTTP header');
    else if (!ownHeaders.test(name.toLowerCase())) read[name.toLowerCase()] = readSecret(filled);
  }
  const chosen = transports.find((one) => one === transport);
  if (transport !== undefined && chosen === undefined)
    complain('transport', `must be one of ${transports.join(', ')}`);
  return {
    ...(Object.keys(read).length > 0 && { headers: read }),
    ...(chosen !== undefined && { transport: chosen }),
  };
}

/** Replaces `${NAME}` with the variable of that name, as mcp-remote does. */
function expanded(text: string, setting: (name: string) => string | undefined): string {
  return text.replaceAll(/\$\{([^}]+)\}/g, (whole, name: string) => setting(name) ?? whole);
}

export const changedToolModes = ['flag', 'withhold'] as const;

/**
 * The tools that an assistant may see. Each setting in the environment (`LATCHKEY_ALLOW_TOOLS`, `LATCHKEY_DENY_TOOLS`,
 * `LATCHKEY_CHANGED_TOOLS`) takes precedence over that of the entry.
 */
function readToolSettings(
  texts: ToolTexts,
  { source, key }: { source: string; key: string },
  setting: (name: string) => string | undefined,
  problems: Problem[],
): ToolSettings {
  const complain = (name: string, problem: string) =>
    void problems.push({ source, key: `${key}.${name}`, problem });
  const list = (name: 'allowTools' | 'denyTools', variable: string): string[] | undefined => {
    const value = setting(variable)?.split(/[\s,]+/) ?? texts[name] ?? undefined;
    if (value === undefined) return undefined;
    if (Array.isArray(value) && value.every((one) => typeof one === 'string'))
      return value.filter(Boolean);
    complain(name, 'must be a list of names, in which * matches any text');
    return undefined;
  };
  const allow = list('allowTools', 'LATCHKEY_ALLOW_TOOLS');
  const deny = list('denyTools', 'LATCHKEY_DENY_TOOLS');
  const mode = setting('LATCHKEY_CHANGED_TOOLS') ?? texts.changedTools ?? undefined;
  const changed = changedToolModes.find((known) => known === mode);
  if (mode !== undefined && changed === undefined)
    complain('changedTools', `must be ${changedToolModes.join(' or ')}`);
  return {
    ...(allow && { allowTools: allow }),
    ...(deny && { denyTools: deny }),
    ...(changed && { changedTools: changed }),
  };
}
