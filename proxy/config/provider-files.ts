// The files that name identity providers for the servers of a company: one by the computer's administrators, and one with what servers told us.
import { mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isObject, parseObject, type JsonObject } from 'latchkey-mcp/json-value';
import { writeAtomically } from '#atomic-file';
import type { UserHost } from '#host';
import { isWithin } from '#transport/web-url';
import { ConfigurationError } from './errors.ts';
import { readIdentityProvider, type IdentityProvider } from './identity-provider.ts';

/** Where the administrators of a computer put the file, in a folder that only they can write to. */
export function managedFile({ platform, env }: Pick<UserHost, 'platform' | 'env'>): string {
  const chosen = env['LATCHKEY_MANAGED_FILE'];
  if (chosen) return chosen;
  if (platform === 'darwin') return '/Library/Application Support/Latchkey/managed.json';
  return platform === 'win32'
    ? String.raw`C:\Program Files\Latchkey\managed.json`
    : '/etc/latchkey/managed.json';
}

/** The file with the providers that servers named, in the state directory. */
export function learnedFile(stateDirectory: string): string {
  return join(stateDirectory, 'identity-providers.json');
}

/**
 * The identity provider that a file names for the server at `url`: the first of its `identityProviders` whose `servers`, if it has any,
 * contain `url` or a URL above it. `undefined` if the file does not exist or names none.
 *
 * @throws {ConfigurationError} if the file is invalid
 */
export async function providerIn(
  source: string,
  url: string,
): Promise<IdentityProvider | undefined> {
  for (const [at, entry] of (await entriesOf(source)).entries()) {
    const key = `identityProviders[${at}]`;
    const { servers } = entry;
    const names = Array.isArray(servers) ? servers.filter((one) => typeof one === 'string') : [];
    if (servers !== undefined && (!Array.isArray(servers) || names.length < servers.length))
      throw invalid(source, `${key}.servers`, 'is not a list of URLs');
    const provider = readIdentityProvider(entry, (problem) => {
      throw invalid(source, key, problem);
    });
    if (servers === undefined || names.some((name) => isWithin(url, name))) return provider;
  }
  return undefined;
}

/** The URLs of all servers for which a file names identity providers. */
export async function serversNamedIn(source: string): Promise<string[]> {
  const all = (await entriesOf(source)).flatMap(({ servers }) => servers);
  return all.flatMap((one) => (typeof one === 'string' ? [one] : []));
}

/** The identity provider that the server at `url`, or another of its origin, named to a person who had signed in there. */
export async function learnedProvider(
  stateDirectory: string,
  url: string,
): Promise<IdentityProvider | undefined> {
  const provider = await providerIn(learnedFile(stateDirectory), url);
  return provider && { ...provider, namedBy: url };
}

async function entriesOf(source: string): Promise<JsonObject[]> {
  const text = await readFile(source, 'utf8').catch((error: unknown) => {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw invalid(source, '', `cannot be read (${code})`);
  });
  if (text === undefined) return [];
  const document = parseObject(text);
  const listed = document?.['identityProviders'] ?? [];
  if (document && Array.isArray(listed) && listed.every(isObject)) return listed;
  const problem = 'is not a list of objects with issuer and clientId';
  throw invalid(source, 'identityProviders', problem);
}

function invalid(source: string, key: string, problem: string): ConfigurationError {
  return new ConfigurationError([{ source, key, problem }]);
}

/** The company's provider that a server names to a person who has signed in, and the servers that accept it. */
export type NamedProvider = { provider: IdentityProvider; servers: readonly string[] };

const maxLearned = 100;

/**
 * Stores the provider that the server at `url` named to a person who has just signed in there, in place of an earlier one. Ignores servers
 * of other origins, and stores nothing if the remaining ones do not include the server at `url`.
 */
export async function learnProvider(
  source: string,
  url: string,
  named: NamedProvider | undefined,
): Promise<void> {
  const { origin } = new URL(url);
  const own = (named?.servers ?? []).filter((server) => URL.parse(server)?.origin === origin);
  if (named && !own.some((server) => isWithin(url, server))) return;
  const known = await entriesOf(source);
  const isAbout = ({ servers }: JsonObject) =>
    Array.isArray(servers) && servers.some((server) => isWithin(url, String(server)));
  const others = known.filter((entry) => !isAbout(entry));
  const learned = named
    ? [{ issuer: named.provider.issuer, clientId: named.provider.clientId, servers: own }]
    : [];
  const identityProviders = [...learned, ...others].slice(0, maxLearned);
  if (JSON.stringify(identityProviders) === JSON.stringify(known)) return;
  await mkdir(dirname(source), { recursive: true, mode: 0o700 });
  await writeAtomically(source, `${JSON.stringify({ identityProviders }, undefined, 2)}\n`);
}
