import type { Problem } from './configuration-error.ts';
import { startsLatchkey } from './launch-entry.ts';
import type { ToolTexts } from './read-tool-settings.ts';

/** What an assistant's configuration says of one server, in one shape for all assistants. */
export type Entry = {
  source: string;
  /** Where in the file: `mcpServers.acme`. */
  key: string;
  url: string;
  /** The `oauth` object, unread. */
  oauth?: unknown;
  /** The key in the file that holds `oauth`, for messages. */
  oauthKey: string;
  apiKey?: unknown;
  /** Whose sign-in it is; our own file says so. */
  account?: string;
  /** Unread. */
  headers?: unknown;
  transport?: unknown;
  /** What an entry that starts us says besides the URL: command and arguments, where there is more. */
  words?: readonly string[];
  /** What the assistant puts in the environment of the program it starts. */
  env: Record<string, string>;
} & ToolTexts;

type Json = Record<string, unknown>;

/**
 * Reads an entry with a URL, or one that starts this very program with a URL among its arguments.
 * One that starts it by name only (`latchkey acme`) refers to another entry: `undefined`.
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
    const args = Array.isArray(value['args']) ? value['args'].filter(isString) : [];
    const words = [value['command'], ...args].filter(isString);
    const program = words.findIndex((word) => startsLatchkey([word]));
    if (program < 0) {
      problems.push({
        source,
        key,
        problem: 'starts another program; give it a "url", or start latchkey with one',
      });
      return undefined;
    }
    // What comes before it is npx's, which starts us from a URL itself.
    const own = words.slice(program + 1);
    const url = own.find((word) => /^https?:\/\//i.test(word));
    if (url === undefined) return undefined;
    const flags = own.some((arg) => /^(?:--|\d+$)/.test(arg));
    return { source, key, url, oauthKey: `${key}.oauth`, env, ...tools, ...(flags && { words }) };
  }
  const urlKey = ['url', 'httpUrl', 'serverUrl'].find((name) => value[name] !== undefined) ?? 'url';
  const url = value[urlKey];
  if (!isString(url)) {
    problems.push({
      source,
      key: `${key}.${urlKey}`,
      problem: 'is missing; it is the URL of the MCP server',
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
    ...(isString(value['account']) && { account: value['account'] }),
    ...(value['headers'] !== undefined && { headers: value['headers'] }),
    ...(value['transport'] !== undefined && { transport: value['transport'] }),
  };
}

/** Cursor writes the same object in capitals. */
function fromCursor(auth: Json): Json {
  const { CLIENT_ID: clientId, CLIENT_SECRET: clientSecret, scopes } = auth;
  return { clientId, clientSecret, scopes };
}

function environment(value: unknown): Record<string, string> {
  if (!isObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => isString(entry[1])),
  );
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}
