import { inKeychain, type Connection } from './connection.ts';

/**
 * What a configuration file says of `connection`: what `readConnection` reads, but `"keychain"` in the
 * place of each secret, which stands there then. The headers named by `secretHeaders` are secrets.
 */
export function connectionEntry(
  connection: Connection,
  secretHeaders: readonly string[] = [],
): Record<string, unknown> {
  const { url, account, credentials, headers, allowTools, denyTools, changedTools, transport } =
    connection;
  const shown = Object.entries(headers ?? {}).map(([name, value]) => [
    name,
    secretHeaders.includes(name) ? inKeychain : value,
  ]);
  return {
    url,
    ...(account !== undefined && { account }),
    ...credentialMembers(credentials),
    ...(shown.length > 0 && { headers: Object.fromEntries(shown) }),
    ...(allowTools && { allowTools }),
    ...(denyTools && { denyTools }),
    ...(changedTools && { changedTools }),
    ...(transport !== undefined && { transport }),
  };
}

function credentialMembers(credentials: Connection['credentials']): Record<string, unknown> {
  if (credentials.kind === 'api_key') return { apiKey: inKeychain };
  const { kind, ...settings } = credentials;
  if (Object.keys(settings).length === 0) return {};
  const secret = settings.clientSecret === undefined ? {} : { clientSecret: inKeychain };
  return { oauth: { ...settings, ...secret, grant: kind } };
}
