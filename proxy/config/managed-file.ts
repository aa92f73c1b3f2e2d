import { readFile } from 'node:fs/promises';
import { isObject, parseObject } from 'latchkey-mcp/json-value';
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

/**
 * The identity provider that the administrators of this computer chose for the server at `url`: the first of `identityProviders`
 * in the managed file whose `servers`, if it has any, contain a URL that `url` is or is below.
 *
 * @throws {ConfigurationError} if there is such a file, and it is invalid
 */
export async function managedProvider(
  url: string,
  host: Pick<UserHost, 'platform' | 'env'>,
): Promise<IdentityProvider | undefined> {
  const source = managedFile(host);
  const refuse = (key: string, problem: string) =>
    new ConfigurationError([{ source, key, problem }]);
  const text = await readFile(source, 'utf8').catch((error: unknown) => {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason';
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw refuse('', `cannot be read (${code})`);
  });
  if (text === undefined) return undefined;
  const document = parseObject(text);
  const listed = document?.['identityProviders'] ?? [];
  if (!document || !Array.isArray(listed) || !listed.every(isObject))
    throw refuse('identityProviders', 'is not a list of objects with issuer and clientId');
  for (const [at, entry] of listed.entries()) {
    const key = `identityProviders[${at}]`;
    const { servers } = entry;
    const names = Array.isArray(servers) ? servers.filter((one) => typeof one === 'string') : [];
    if (servers !== undefined && (!Array.isArray(servers) || names.length < servers.length))
      throw refuse(`${key}.servers`, 'is not a list of URLs');
    const provider = readIdentityProvider(entry, (problem) => {
      throw refuse(key, problem);
    });
    if (servers === undefined || names.some((name) => isWithin(url, name))) return provider;
  }
  return undefined;
}
