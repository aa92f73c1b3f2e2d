import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { UsageError } from './errors.ts';
import { startsLatchkey } from './launch-entry.ts';
import { remoteFlags, type RemoteFlag } from './mcp-remote-flags.ts';
import type { GivenEntry } from './read-connection.ts';

/**
 * Reads the connection from the arguments of an entry that starts Latchkey with flags of mcp-remote, so that `latchkey NAME`
 * uses the same connection as the assistant.
 *
 * @throws {UsageError} whose message never contains a value
 */
export function typedEntry(words: readonly string[], ports: ReadArgumentsPorts): GivenEntry {
  const found = remoteWords(words, (word) => startsLatchkey([word]));
  if (!found) return {};
  const { oauth, headers, denyTools, transport } = readArguments(found, ports);
  return {
    ...(oauth && { oauth }),
    ...(headers && { headers }),
    ...(denyTools && { denyTools }),
    ...(transport !== undefined && { transport }),
  };
}

/**
 * The arguments of an entry that starts mcp-remote, with any command; `undefined` for an entry that starts something else.
 * Unknown arguments are ignored, as mcp-remote does.
 */
export function remoteWords(
  words: readonly string[],
  isProgram: (word: string) => boolean = isMcpRemote,
): RemoteWords | undefined {
  const at = words.findIndex(isProgram);
  if (at < 0) return undefined;
  const flags = new Map<string, string[]>();
  const operands: string[] = [];
  const rest = words.slice(at + 1);
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    const flag = word.startsWith('--') ? flagNamed(word.slice(2)) : undefined;
    if (flag?.value !== undefined)
      flags.set(word.slice(2), [...(flags.get(word.slice(2)) ?? []), rest.shift() ?? '']);
    else if (flag) flags.set(word.slice(2), ['']);
    else if (!word.startsWith('-')) operands.push(word);
  }
  const from = operands.findIndex((operand) => /^https?:\/\//i.test(operand));
  const [url, next] = from < 0 ? [] : operands.slice(from);
  if (url === undefined) return undefined;
  return { url, flags, ...(next !== undefined && /^\d+$/.test(next) && { port: next }) };
}

function isMcpRemote(word: string): boolean {
  const path = word.replaceAll('\\', '/');
  return (
    /^mcp-remote(@[\w.-]+)?$/.test(basename(path)) || path.endsWith('/mcp-remote/dist/proxy.js')
  );
}

/** The URL, the port, and the values of each flag as typed; an empty string for a switch. */
type RemoteWords = {
  url: string;
  /** The port of the redirect URI, which is the argument after the URL. */
  port?: string | undefined;
  flags: ReadonlyMap<string, readonly string[]>;
};

/** The arguments as members of a configuration entry, not validated. */
type RemoteArguments = {
  oauth?: Record<string, unknown>;
  headers?: Record<string, string>;
  denyTools?: readonly string[];
  transport?: string;
  logLevel?: 'debug' | 'error';
  /** Messages to the person, for standard error. */
  warnings: string[];
  secretHeaders: string[];
};

type ReadArgumentsPorts = {
  platform: NodeJS.Platform;
  env: Readonly<Record<string, string | undefined>>;
  /** `undefined` if there is no such file. */
  readText: (path: string) => string | undefined;
};

/** Names of headers whose value may be a secret. */
const secretName = /authorization|cookie|token|secret|password|key/i;

/**
 * Translates mcp-remote's arguments. `${NAME}` stands for a variable of the environment.
 *
 * @throws {UsageError} whose message never contains a value
 */
export function readArguments(words: RemoteWords, ports: ReadArgumentsPorts): RemoteArguments {
  const { url, port, flags } = words;
  const one = (flag: string) => flags.get(flag)?.[0];
  const warnings: string[] = [];
  const fill = (text: string) =>
    text.replaceAll(/\$\{([^}]+)\}/g, (whole, name: string) => {
      const value = ports.env[name];
      if (value === undefined) warnings.push(`the environment variable ${name} is not set`);
      return value ?? whole;
    });

  const lines = (flags.get('header-file') ?? []).flatMap((path) => linesOf(path, ports));
  const typed = (flags.get('header') ?? []).map((line) => headerOf(line, 'a --header'));
  const all = [...typed, ...lines.map((line) => headerOf(line, 'a line of --header-file'))];
  const headers = Object.fromEntries(all.map(([name, value]) => [name, fill(value)]));
  const info = objectIn(one('static-oauth-client-info'), 'static-oauth-client-info', fill, ports);
  const metadata = objectIn(
    one('static-oauth-client-metadata'),
    'static-oauth-client-metadata',
    (text) => text,
    ports,
  );
  const inline = !one('static-oauth-client-info')?.startsWith('@');
  const literal = (text: string) => !/\$\{[^}]+\}/.test(text);
  if (
    typed.some(([name, value]) => secretName.test(name) && literal(value)) ||
    (info?.['client_secret'] !== undefined &&
      inline &&
      !/"client_secret"\s*:\s*"\$\{[^}]+\}"/.test(one('static-oauth-client-info') ?? ''))
  )
    warnings.push(
      'an argument contains a secret, and every program on this computer can read arguments; latchkey import moves it to the keychain',
    );
  const idle = [...flags.keys()].filter((name) => flagNamed(name)?.idle !== undefined);
  if (idle.length > 0)
    warnings.push(
      `options without effect: ${idle.map((name) => `--${name} (${flagNamed(name)?.idle})`).join(', ')}`,
    );

  const authorizeParams = paramsOf(flags.get('authorize-param') ?? []);
  const resource = flags.has('disable-resource-parameter') ? '' : one('resource')?.trim();
  const clientMetadataUrl = one('client-metadata-url');
  const hash = serverHash({ url, resource, headers, authorizeParams, clientMetadataUrl });
  const denyTools = flags.get('ignore-tool');
  const transport = one('transport');
  const oauth = {
    ...clientOf(info, flags.has('client-credentials')),
    ...(typeof metadata?.['scope'] === 'string' && { scopes: metadata['scope'] }),
    ...(clientMetadataUrl !== undefined && { clientMetadataUrl }),
    ...(resource !== undefined && { resource }),
    ...(Object.keys(authorizeParams).length > 0 && { authorizeParams }),
    ...redirectOf(words, info !== undefined, hash, ports.platform),
  };
  return {
    warnings,
    secretHeaders: Object.keys(headers)
      .filter((name) => secretName.test(name))
      .map((name) => name.toLowerCase()),
    ...(Object.keys(oauth).length > 0 && { oauth }),
    ...(Object.keys(headers).length > 0 && { headers }),
    ...(denyTools && { denyTools }),
    ...(transport !== undefined && { transport }),
    ...(flags.has('silent') && { logLevel: 'error' as const }),
    ...(flags.has('debug') && { logLevel: 'debug' as const }),
    ...(port !== undefined && !/^\d+$/.test(port)
      ? refuse('the word after the URL', 'a port')
      : {}),
  };
}

/** The redirect URI that the client was registered with; empty, which means our own URI, if no client was registered. */
function redirectOf(
  { port, flags }: RemoteWords,
  registered: boolean,
  hash: string,
  platform: NodeJS.Platform,
): Record<string, unknown> {
  const host = flags.get('host')?.[0];
  const path = flags.get('callback-path')?.[0];
  if (port === undefined && host === undefined && path === undefined && !registered) return {};
  return {
    redirectPort: port === undefined ? derivedPort(hash) : Number(port),
    redirectHost: host ?? (platform === 'win32' ? '127.0.0.1' : 'localhost'),
    redirectPath: path ?? '/oauth/callback',
  };
}

function clientOf(
  info: Record<string, unknown> | undefined,
  credentials: boolean,
): Record<string, unknown> {
  if (!info) return credentials ? { grant: 'client_credentials' } : {};
  const { client_id: clientId, client_secret: clientSecret } = info;
  return {
    clientId,
    ...(clientSecret !== undefined && { clientSecret }),
    grant: credentials ? 'client_credentials' : 'authorization_code',
  };
}

function flagNamed(name: string): RemoteFlag | undefined {
  return Object.entries(remoteFlags).find(([known]) => known === name)?.[1];
}

function headerOf(line: string, source: string): [name: string, value: string] {
  const [, name, value] = /^([A-Za-z0-9_-]+):\s*(.*)$/.exec(line) ?? [];
  if (name === undefined || value === undefined) return refuse(source, "'NAME: VALUE'");
  return [name, value];
}

function linesOf(path: string, ports: ReadArgumentsPorts): string[] {
  const text = textOf(path, `--header-file ${path}`, ports);
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  return lines.filter((line) => line !== '' && !line.startsWith('#'));
}

function textOf(path: string, source: string, { readText }: ReadArgumentsPorts): string {
  let text: string | undefined;
  try {
    text = readText(path);
  } catch {
    return refuse(source, 'a file that can be read');
  }
  return text ?? refuse(source, 'an existing file');
}

function objectIn(
  value: string | undefined,
  flag: string,
  fill: (text: string) => string,
  ports: ReadArgumentsPorts,
): Record<string, unknown> | undefined {
  if (value === undefined) return undefined;
  const isFile = value.startsWith('@');
  const text = isFile ? textOf(value.slice(1), `--${flag} ${value}`, ports) : value;
  try {
    const parsed: unknown = JSON.parse(fill(text));
    if (typeof parsed === 'object' && parsed !== null) return { ...parsed };
  } catch {
    // Reported below, because the parser's message quotes the text.
  }
  return refuse(`--${flag}`, 'a JSON object');
}

function paramsOf(values: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    values.map((value): [string, string] => {
      const at = value.indexOf('=');
      if (at < 1) return refuse('--authorize-param', 'KEY=VALUE');
      return [value.slice(0, at).trim(), value.slice(at + 1)];
    }),
  );
}

function refuse(what: string, expected: string): never {
  throw new UsageError(`${what} is not ${expected}`);
}

/** The values that distinguish connections in mcp-remote. */
type RemoteIdentity = {
  url: string;
  resource?: string | undefined;
  headers?: Readonly<Record<string, string>>;
  authorizeParams?: Readonly<Record<string, string>>;
  clientMetadataUrl?: string | undefined;
};

/** The name of a connection's files in mcp-remote 0.15. */
export function serverHash(identity: RemoteIdentity): string {
  const { url, resource, headers = {}, authorizeParams = {}, clientMetadataUrl } = identity;
  const sorted = (values: Readonly<Record<string, string>>) => {
    const keys = Object.keys(values).sort();
    return keys.length > 0 ? [JSON.stringify(values, keys)] : [];
  };
  const parts = [
    url,
    ...(resource ? [resource] : []),
    ...sorted(authorizeParams),
    ...sorted(headers),
    ...(clientMetadataUrl === undefined ? [] : [clientMetadataUrl]),
  ];
  return createHash('md5').update(parts.join('|')).digest('hex');
}

/** The port of mcp-remote's redirect URI if none was given. */
export function derivedPort(hash: string): number {
  return 3335 + (Number.parseInt(hash.slice(0, 4), 16) % 45_816);
}
