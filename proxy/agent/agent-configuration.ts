import { nearest } from 'latchkey-mcp/suggest';
import { isObject, type JsonObject } from 'latchkey-mcp/json-value';
import { ConfigurationError, type Problem } from '#config/errors';
import { parseJsonc } from '#config/jsonc';
import type { LocalServerSettings } from './local-servers.ts';

/** The settings of the servers that an agent serves, by their names in the dashboard. */
export type AgentConfiguration = ReadonlyMap<string, LocalServerSettings>;

export type ReadAgentConfigurationPorts = {
  env: Readonly<Record<string, string | undefined>>;
  /** Returns `undefined` if there is no such file. */
  readText: (path: string) => string | undefined;
};

const slug = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const known = {
  stdio: ['command', 'args', 'env', 'cwd', 'allowTools', 'denyTools'],
  http: ['url', 'headers', 'caFile', 'allowTools', 'denyTools'],
};

/**
 * Reads the configuration file of an agent. Comments are allowed.
 *
 *     {"servers": {
 *       "files": {"command": "npx", "args": ["…"], "env": {"TOKEN": "…"}, "allowTools": ["read_*"]},
 *       "crm": {"url": "http://127.0.0.1:3000/mcp", "headers": {"authorization": {"env": "CRM_AUTHORIZATION"}}}}}
 *
 * A header is text, `{"env": NAME}` or `{"file": PATH}`.
 *
 * @throws {ConfigurationError} with all problems
 */
export function readAgentConfiguration(
  source: string,
  ports: ReadAgentConfigurationPorts,
): AgentConfiguration {
  const problems: Problem[] = [];
  const add: Add = (key, problem) => {
    problems.push({ source, key, problem });
    return undefined;
  };
  const document = readDocument(source, ports, add);
  const servers = isObject(document) ? document['servers'] : undefined;
  const found = new Map<string, LocalServerSettings>();
  if (isObject(servers)) {
    for (const [name, value] of Object.entries(servers)) {
      const key = `servers.${name}`;
      if (!slug.test(name))
        add(key, 'is not a server name: lower-case letters, digits and hyphens, up to 63');
      const settings = isObject(value)
        ? readServer(
            value,
            (member, problem) => add(member ? `${key}.${member}` : key, problem),
            ports,
          )
        : add(key, 'is not an object');
      if (settings) found.set(name, settings);
    }
    if (Object.keys(servers).length === 0) add('servers', 'is empty; name at least one server');
  } else if (document !== undefined)
    add('servers', 'is missing; write {"servers": {"NAME": {"command": "…"} or {"url": "…"}}}');
  if (problems.length > 0) throw new ConfigurationError(problems);
  return found;
}

/** Adds a problem. Returns `undefined`, in place of the value. */
type Add = (key: string, problem: string) => undefined;

function readDocument(
  source: string,
  { readText }: ReadAgentConfigurationPorts,
  add: Add,
): unknown {
  let text: string | undefined;
  try {
    text = readText(source);
  } catch (error) {
    return add('', `cannot be read (${codeOf(error)})`);
  }
  if (text === undefined) return add('', 'does not exist; name another file with --config');
  try {
    const document = parseJsonc(text);
    return isObject(document) ? document : add('', 'is not a JSON object');
  } catch (error) {
    // The parser's message may quote a secret.
    const where = /position \d+(?: \(line \d+ column \d+\))?/.exec(String(error))?.[0];
    return add('', `is not valid JSON${where === undefined ? '' : ` at ${where}`}`);
  }
}

function readServer(
  entry: JsonObject,
  add: Add,
  ports: ReadAgentConfigurationPorts,
): LocalServerSettings | undefined {
  const { command, url } = entry;
  if ((command === undefined) === (url === undefined)) {
    const all = [...new Set(Object.values(known).flat())];
    for (const member of Object.keys(entry).filter((one) => !all.includes(one))) {
      const meant = nearest(member, all);
      add(member, meant === undefined ? 'is unknown' : `is unknown; did you mean ${meant}?`);
    }
    add('', 'requires either a command or a url');
    return undefined;
  }
  const kind = command === undefined ? 'http' : 'stdio';
  for (const member of Object.keys(entry))
    if (!known[kind].includes(member))
      add(member, `is unknown; use one of ${known[kind].join(', ')}`);
  const allow = textsOf(entry, 'allowTools', add);
  const deny = textsOf(entry, 'denyTools', add);
  const tools = { ...(allow && { allow }), ...(deny && { deny }) };
  if (kind === 'http') {
    const address = readUrl(url, add);
    const headerSecrets = readHeaders(entry['headers'], add, ports);
    const caFile = textOf(entry, 'caFile', add);
    return address && { kind, url: address, headerSecrets, tools, ...(caFile && { caFile }) };
  }
  const program = textOf(entry, 'command', add);
  const args = textsOf(entry, 'args', add);
  const cwd = textOf(entry, 'cwd', add);
  const env = readEnvironment(entry['env'], add);
  return {
    kind,
    command: program ?? '',
    env,
    tools,
    ...(args && { args }),
    ...(cwd !== undefined && { cwd }),
  };
}

function readUrl(value: unknown, add: Add): URL | undefined {
  const url = typeof value === 'string' ? URL.parse(value) : null;
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    add('url', 'is not a URL that begins with http:// or https://');
  else if (url.username || url.password)
    add('url', 'contains a password; set it in headers instead');
  else return url;
  return undefined;
}

function readHeaders(
  value: unknown,
  add: Add,
  { env, readText: readFile }: ReadAgentConfigurationPorts,
): Record<string, string> {
  const headers: Record<string, string> = {};
  if (value === undefined) return headers;
  if (!isObject(value)) {
    add('headers', 'is not an object');
    return headers;
  }
  for (const [name, given] of Object.entries(value)) {
    const key = `headers.${name}`;
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) add(key, 'is not a header name');
    const secret = isObject(given) ? headerSecret(given, key, add, env, readFile) : given;
    if (typeof secret === 'string' && /^[\t\x20-\x7e\x80-\xff]*$/.test(secret))
      headers[name.toLowerCase()] = secret;
    else if (!isObject(given) || secret !== undefined)
      add(key, 'is neither valid text nor {"env": NAME} or {"file": PATH}');
  }
  return headers;
}

function headerSecret(
  { env: name, file }: JsonObject,
  key: string,
  add: Add,
  env: ReadAgentConfigurationPorts['env'],
  readFile: (path: string) => string | undefined,
): string | undefined {
  if (typeof name === 'string') {
    const secret = env[name];
    return secret || add(key, `${name} is not set in the environment`);
  }
  if (typeof file !== 'string') return add(key, 'has neither env nor file');
  try {
    const secret = readFile(file)?.trim();
    return secret || add(key, `${file} is empty or does not exist`);
  } catch (error) {
    return add(key, `${file} cannot be read (${codeOf(error)})`);
  }
}

function readEnvironment(value: unknown, add: Add): Record<string, string> {
  if (value === undefined) return {};
  if (!isObject(value)) {
    add('env', 'is not an object');
    return {};
  }
  const entries = Object.entries(value).filter((entry): entry is [string, string] => {
    const [name, text] = entry;
    if (typeof text === 'string' && /^[^=\0]+$/.test(name)) return true;
    add(`env.${name}`, 'is not text');
    return false;
  });
  return Object.fromEntries(entries);
}

function textOf(entry: JsonObject, member: string, add: Add): string | undefined {
  const value = entry[member];
  if (value === undefined) return undefined;
  if (typeof value === 'string' && value !== '' && !value.includes('\0')) return value;
  return add(member, 'is not text');
}

function textsOf(entry: JsonObject, member: string, add: Add): string[] | undefined {
  const value = entry[member];
  if (value === undefined) return undefined;
  if (Array.isArray(value) && value.every((text) => typeof text === 'string')) return value;
  return add(member, 'is not a list of strings');
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
}
