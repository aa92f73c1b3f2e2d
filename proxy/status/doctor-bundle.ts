import type { Connection } from '#config/connection';
import { redact } from 'latchkey-mcp/safe-text';
import { keychainWord } from '#config/secret';
import { percentDecoded } from '#transport/web-url';
import { strToU8, zipSync } from 'fflate';

/**
 * A zip of JSON documents, by their names, without the `secrets` and any text that looks like one.
 */
export function redactedBundle(
  documents: Readonly<Record<string, unknown>>,
  secrets: readonly string[],
): Uint8Array {
  const ways = [...new Set(secrets.flatMap((secret) => [secret, encodeURIComponent(secret)]))]
    // The longest first, so that no part of a longer secret remains.
    .toSorted((one, other) => other.length - one.length);
  const clean = (_: string, value: unknown) =>
    // By pattern first: a short known secret may be part of one that only the pattern finds.
    typeof value === 'string' ? redact(redact(value), ways) : value;
  const files = Object.entries(documents).map(([name, document]): [string, Uint8Array] => [
    `latchkey-doctor/${name}.json`,
    strToU8(`${JSON.stringify(document, clean, 2)}\n`),
  ]);
  return zipSync(Object.fromEntries(files));
}

const secretNames = /secret|password|passphrase|key|token/i;
/** Settings with names like those of secrets, which only choose a path or a kind of store. */
const otherNames = /^LATCHKEY_(SECRET_STORE|\w+_FILE)$/;

/** A connection for other people to read: its configuration, with a mark in place of each secret. */
export function redactedConnection(connection: Connection): Record<string, unknown> {
  const { credentials, headers, url, ...rest } = connection;
  return {
    ...rest,
    url: withoutQuery(url),
    ...(headers && { headers: Object.keys(headers) }),
    credentials: Object.fromEntries(
      Object.entries(credentials).map(([name, value]) => [
        name,
        /(Secret|apiKey)/.test(name) ? '…' : value,
      ]),
    ),
  };
}

/** The values that the bundle must not contain. */
export function secretsOf(
  { credentials, headers, url }: Connection,
  env: Readonly<Record<string, string | undefined>>,
): string[] {
  const settings = Object.entries(credentials).filter(([name]) => /Secret/.test(name));
  const variables = Object.entries(env).filter(
    ([name]) => secretNames.test(name) && !otherNames.test(name),
  );
  const proxies = Object.entries(env)
    .filter(([name]) => /_proxy$/i.test(name))
    .map(([, value = '']) => URL.parse(value)?.password ?? '')
    .flatMap((password) => [password, percentDecoded(password)]);
  const queries = [...(URL.parse(url)?.searchParams.values() ?? [])];
  return [...settings, ...variables]
    .map(([, value]: [string, unknown]) => value)
    .concat(Object.values(headers ?? {}), queries, proxies)
    .filter((value) => typeof value === 'string')
    .filter((value) => value.length > 3 && value !== keychainWord)
    .filter((value, at, all) => all.indexOf(value) === at);
}

function withoutQuery(text: string): string {
  const url = URL.parse(text);
  if (!url) return '…';
  for (const name of url.searchParams.keys()) url.searchParams.set(name, '…');
  return url.href;
}
