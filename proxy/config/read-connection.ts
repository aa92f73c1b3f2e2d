import { ConfigurationError, type Problem } from './configuration-error.ts';
import type { Connection } from './connection.ts';
import { findEntry, type ReadText } from './find-entry.ts';
import { readCredentials } from './read-credentials.ts';
import { readExtras } from './read-extras.ts';
import type { Entry } from './read-entry.ts';
import { readToolSettings } from './read-tool-settings.ts';
import type { UserHost } from '#host';
import { userFiles } from './user-files.ts';
import { webUrl } from '#transport/web-url';

/** What the command line says of a connection besides its name or URL; it wins over the file. */
export type GivenEntry = Partial<
  Pick<Entry, 'oauth' | 'apiKey' | 'headers' | 'denyTools' | 'transport'>
>;

export type ReadConnectionOptions = {
  /** What was typed for this run. */
  given?: GivenEntry;
  /** What the words of an entry that starts us say, mcp-remote's flags among them. */
  readWords?: (words: readonly string[], env: Record<string, string>) => Promise<GivenEntry>;
};

/**
 * The connection that `target` means: a URL, or the name of an entry in a configuration file. The
 * environment (`LATCHKEY_OAUTH`, `LATCHKEY_CLIENT_ID`, `LATCHKEY_CLIENT_SECRET`, `LATCHKEY_SCOPES`,
 * `LATCHKEY_API_KEY`) wins over the file, ours over the one that the entry carries.
 *
 * @throws {ConfigurationError} with all problems at once
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
  const typed = found.words && (await readWords?.(found.words, found.env));
  const entry = { ...found, ...typed, ...given };
  if (!webUrl(entry.url))
    problems.push({
      source: entry.source,
      key: entry.key,
      problem: 'the URL must be https, or http on this machine, without user or password',
    });

  const setting = (name: string) => host.env[name] || entry.env[name] || undefined;
  const oauthText = setting('LATCHKEY_OAUTH');
  const written = oauthText === undefined ? entry.oauth : parse(oauthText, entry, problems);
  const clientId = setting('LATCHKEY_CLIENT_ID');
  const scopes = setting('LATCHKEY_SCOPES');
  const single = { ...(clientId && { clientId }), ...(scopes && { scopes }) };
  const oauth = Object.keys(single).length > 0 ? { ...asObject(written), ...single } : written;
  const apiKey = setting('LATCHKEY_API_KEY');
  if (apiKey === undefined && entry.apiKey !== undefined && entry.oauth !== undefined)
    problems.push({
      source: entry.source,
      key: entry.key,
      problem: 'has both apiKey and oauth; remove one',
    });
  const clientSecret = setting('LATCHKEY_CLIENT_SECRET');
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

function parse(text: string, { source }: Entry, problems: Problem[]): unknown {
  try {
    return JSON.parse(text);
  } catch {
    problems.push({ source, key: 'LATCHKEY_OAUTH', problem: 'is not JSON; look at its quotes' });
    return undefined;
  }
}

function asObject(value: unknown): object {
  return typeof value === 'object' && value !== null ? value : {};
}
