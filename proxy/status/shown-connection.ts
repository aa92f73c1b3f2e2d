import type { Connection } from '#config/connection';

const secretNames = /secret|password|passphrase|key|token/i;

/** A connection for other people's eyes: what is configured, and for a secret only that there is one. */
export function shownConnection(connection: Connection): Record<string, unknown> {
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

/** The values that must be nowhere in what leaves this machine. */
export function secretsOf(
  { credentials, headers, url }: Connection,
  env: Readonly<Record<string, string | undefined>>,
): string[] {
  const settings = Object.entries(credentials).filter(([name]) => /Secret/.test(name));
  const variables = Object.entries(env).filter(([name]) => secretNames.test(name));
  const proxies = Object.entries(env)
    .filter(([name]) => /_proxy$/i.test(name))
    .map(([, value = '']) => URL.parse(value)?.password ?? '')
    .flatMap((password) => [password, decodeURIComponent(password)]);
  const queries = [...(URL.parse(url)?.searchParams.values() ?? [])];
  return [...settings, ...variables]
    .map(([, value]: [string, unknown]) => value)
    .concat(Object.values(headers ?? {}), queries, proxies)
    .filter((value) => typeof value === 'string')
    .filter((value) => value.length > 3 && value !== 'keychain');
}

function withoutQuery(text: string): string {
  const url = URL.parse(text);
  if (!url) return '…';
  for (const name of url.searchParams.keys()) url.searchParams.set(name, '…');
  return url.href;
}
