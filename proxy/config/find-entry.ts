import { nearest } from 'latchkey-mcp/suggest';
import { isObject, isText, membersOf, memberOf, type JsonObject } from 'latchkey-mcp/json-value';
import type { FilesHost, ReadText } from '#host';
import { assistants, type Assistant } from './assistants.ts';
import type { Connection } from './connection.ts';
import { ConfigurationError, notValid, type Problem } from './errors.ts';
import { entriesIn, launchWords, startsLatchkey } from './launch-entry.ts';

/** The hint for a name that no connection has. */
export const connectionsHint = 'latchkey status lists the connections, latchkey setup URL adds one';

/**
 * Finds the entry called `name`: in `configFile` if given, otherwise in the only file of `userFiles` that has it. Two files may
 * both have it if they mean the same URL; then the first with a credential is used.
 *
 * @throws {ConfigurationError}
 */
export async function findEntry(
  name: string,
  { configFile, userFiles }: { configFile: string | undefined; userFiles: string[] },
  readText: ReadText,
): Promise<Entry> {
  const files = configFile === undefined ? userFiles : [configFile];
  const problems: Problem[] = [];
  const entries: Entry[] = [];
  const names: string[] = [];
  for (const source of files) {
    const document = await readDocument(source, readText, configFile !== undefined, problems);
    for (const servers of ['mcpServers', 'servers']) {
      const members = memberOf(document, servers);
      names.push(...Object.keys(membersOf(members)));
      const value = memberOf(members, name);
      const key = `${servers}.${name}`;
      const entry = value === undefined ? undefined : readEntry(value, { source, key }, problems);
      if (entry) entries.push(entry);
    }
  }
  const [first, ...others] = entries;
  const other = others.find(({ url }) => url !== first?.url);
  if (first && other)
    throw new ConfigurationError([
      {
        source: first.source,
        key: first.key,
        problem: `and ${other.key} of ${other.source} have different URLs; make them the same, or choose one file with --config`,
      },
    ]);
  // An entry of our own file is complete. Others may contain only the URL.
  if (first?.account !== undefined) return first;
  if (first) return entries.find(({ oauth, apiKey }) => oauth ?? apiKey) ?? first;
  if (problems.length > 0) throw new ConfigurationError(problems);
  const meant = nearest(name, names);
  const didYouMean = meant === undefined ? undefined : `did you mean ${meant}?`;
  throw new ConfigurationError([
    {
      key: '',
      code: 'unknown_name',
      ...(configFile === undefined
        ? {
            source: '',
            problem: `no connection named ${name}`,
            hint: didYouMean ?? connectionsHint,
          }
        : {
            source: configFile,
            problem: `no server named ${name}`,
            hint: didYouMean ?? 'add it under "mcpServers", or give the URL instead',
          }),
    },
  ]);
}

/**
 * Checks whether a file can be read. It may be missing, unless it is `required`.
 *
 * @throws {ConfigurationError} with the problem, without quoting the file
 */
export async function checkDocument(
  file: string,
  readText: ReadText,
  { required = false } = {},
): Promise<void> {
  const problems: Problem[] = [];
  await readDocument(file, readText, required, problems);
  if (problems.length > 0) throw new ConfigurationError(problems);
}

/** The contents of a file, or why it cannot be read; neither if it does not exist. */
export async function openDocument(
  file: string,
  readText: ReadText,
): Promise<{ document?: unknown; problem?: Problem }> {
  const problems: Problem[] = [];
  const document = await readDocument(file, readText, false, problems);
  const [problem] = problems;
  return { document, ...(problem && { problem }) };
}

/** The contents of the readable files among these. */
export async function findDocuments(
  files: readonly string[],
  readText: ReadText,
): Promise<unknown[]> {
  const problems: Problem[] = [];
  const documents = files.map(async (file) => readDocument(file, readText, false, problems));
  return (await Promise.all(documents)).filter((document) => document !== undefined);
}

/** The display name of the assistant that connects directly to a URL in its own file, and so signs in itself. */
export async function connectingAssistant(
  { name, source, account }: Connection,
  host: FilesHost,
): Promise<string | undefined> {
  const known: readonly Assistant[] = Object.values(assistants);
  const owner = known.find((one) => one.connectsItself && one.file(host) === source);
  if (!owner || account !== undefined) return undefined;
  const documents = await findDocuments([source], (path) => host.readText(path));
  const entries = documents.flatMap((document) => entriesIn(document, owner.servers));
  const isStarted = entries.some(({ key, entry }) => key === name && launchWords(entry).length > 0);
  return isStarted ? undefined : owner.title;
}

async function readDocument(
  source: string,
  readText: ReadText,
  required: boolean,
  problems: Problem[],
): Promise<unknown> {
  let text: string | undefined;
  try {
    text = readText(source);
  } catch (error) {
    const code = codeOf(error);
    // Other errors may be temporary, such as a lock on Windows, or concern only this program.
    const isFinal = /^(EISDIR|ELOOP|EACCES)$/.test(code);
    problems.push({
      source,
      key: '',
      problem: `cannot be read (${code})`,
      ...(isFinal && { code: 'no_file' }),
    });
    return undefined;
  }
  if (text === undefined) {
    if (required) problems.push({ source, key: '', problem: 'does not exist' });
    return undefined;
  }
  const isToml = source.endsWith('.toml');
  try {
    if (!isToml) return JSON.parse(text);
  } catch {
    // Most files are plain JSON, so the slower readers are loaded only when they are needed.
  }
  try {
    const { parseFile } = await import('./edit-file.ts');
    return await parseFile(text, source);
  } catch {
    // The parser's message quotes the text, which may contain a secret.
    const problem = `${notValid(source)}; check for a missing comma or quote`;
    problems.push({ source, key: '', problem });
    return undefined;
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
}

/** The settings of an entry for tools, not validated. */
export type ToolTexts = { allowTools?: unknown; denyTools?: unknown; changedTools?: unknown };

/** The entry of a server in an assistant's configuration, in one form for all assistants. */
export type Entry = {
  source: string;
  /** Its place in the file: `mcpServers.acme`. */
  key: string;
  url: string;
  /** The `oauth` object, not validated. */
  oauth?: unknown;
  /** The key in the file that contains `oauth`, for messages. */
  oauthKey: string;
  apiKey?: unknown;
  /** Distinguishes several sign-ins to one URL. Only our own file has it. */
  account?: string;
  /** Not validated. */
  headers?: unknown;
  transport?: unknown;
  /** The command and arguments of an entry that starts this program, if they contain a flag or a port besides the URL. */
  words?: readonly string[];
  /** The environment that the assistant passes to the program. */
  env: Record<string, string>;
} & ToolTexts;

/**
 * Reads an entry with a URL, or one that starts this program with a URL among its arguments. Returns `undefined` for one that
 * starts it with a name only (`latchkey acme`), because that refers to another entry.
 */
export function readEntry(
  value: unknown,
  { source, key }: { source: string; key: string },
  problems: Problem[],
): Entry | undefined {
  if (!isObject(value)) {
    problems.push({ source, key, problem: 'is not an object' });
    return undefined;
  }
  const env = environment(value['env']);
  const { allowTools, denyTools, changedTools } = value;
  const tools = { allowTools, denyTools, changedTools };
  if (value['command'] !== undefined) {
    const args = Array.isArray(value['args']) ? value['args'].filter(isText) : [];
    const words = [value['command'], ...args].filter(isText);
    const program = words.findIndex((word) => startsLatchkey([word]));
    if (program < 0) {
      problems.push({
        source,
        key,
        code: 'other_program',
        problem: 'starts another program; set a "url", or start latchkey with a URL',
      });
      return undefined;
    }
    // The arguments before the program belong to npx, which runs our package from a URL.
    const own = words.slice(program + 1);
    const url = own.find((word) => /^https?:\/\//i.test(word));
    if (url === undefined) return undefined;
    const flags = own.some((arg) => /^(?:--|\d+$)/.test(arg));
    return { source, key, url, oauthKey: `${key}.oauth`, env, ...tools, ...(flags && { words }) };
  }
  const urlKey = ['url', 'httpUrl', 'serverUrl'].find((name) => value[name] !== undefined) ?? 'url';
  const url = value[urlKey];
  if (!isText(url)) {
    problems.push({
      source,
      key: `${key}.${urlKey}`,
      problem: 'is missing; set it to the URL of the MCP server',
    });
    return undefined;
  }
  const cursor = isObject(value['auth']) ? value['auth'] : undefined;
  const oauth = value['oauth'] ?? (cursor && fromCursor(cursor));
  return {
    source,
    key,
    url,
    env,
    ...tools,
    oauthKey: `${key}.${cursor && value['oauth'] === undefined ? 'auth' : 'oauth'}`,
    ...(oauth !== undefined && { oauth }),
    ...(value['apiKey'] !== undefined && { apiKey: value['apiKey'] }),
    ...(isText(value['account']) && { account: value['account'] }),
    ...(value['headers'] !== undefined && { headers: value['headers'] }),
    ...(value['transport'] !== undefined && { transport: value['transport'] }),
  };
}

/** Cursor's names for the members of this object are in capitals. */
function fromCursor(auth: JsonObject): JsonObject {
  const { CLIENT_ID: clientId, CLIENT_SECRET: clientSecret, scopes } = auth;
  return { clientId, clientSecret, scopes };
}

function environment(value: unknown): Record<string, string> {
  if (!isObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => isText(entry[1])),
  );
}

/** The names of the servers in these files, without duplicates. Files that cannot be read are skipped. */
export async function connectionNames(
  files: readonly string[],
  readText: ReadText,
): Promise<string[]> {
  const names = new Set<string>();
  for (const document of await findDocuments(files, readText))
    for (const servers of ['mcpServers', 'servers'])
      for (const name of Object.keys(membersOf(memberOf(document, servers)))) names.add(name);
  return [...names];
}
