import { plainWord } from '#shell-word';
import type { OAuthSettings } from './oauth-fields.ts';
import { keychainWord, type Secret } from './secret.ts';

/** An MCP server, and the credential for it. */
export type Connection = {
  /** The user's name for it. */
  name: string;
  /** Exactly as configured, because it is compared and sent byte for byte. */
  url: string;
  /** Where it is configured: a file, or the command line. */
  source: string;
  /** The file to name with `--config` so that the connection is found again. */
  configFile?: string;
  /** Distinguishes several sign-ins to one URL. It is part of the keychain accounts of keys, headers and tokens. */
  account?: string;
  credentials: Credentials;
  /** Sent with every request to the server. Names are in lower case. */
  headers?: Readonly<Record<string, Secret>>;
  /** The transports to try, in order; `http-first` by default. */
  transport?: Transport;
} & ToolSettings;

/** The command that stores the secret of a connection again. The URL may contain characters that a shell interprets. */
export function replaceCommand({ name, url }: Pick<Connection, 'name' | 'url'>): string {
  return `latchkey add ${plainWord(name)} ${plainWord(url)} --replace`;
}

/** The command that sets up a connection to a server, or to the list of servers at its address. */
export function setupCommand(url: string): string {
  return `latchkey setup ${plainWord(url)}`;
}

/** The server's tools that the assistant may see; all by default. */
export type ToolSettings = {
  /** Names, in which `*` matches any text. */
  allowTools?: readonly string[];
  /** Hidden, even if they are allowed. */
  denyTools?: readonly string[];
  /** What to do with a tool that has changed since it was accepted; `flag` by default. */
  changedTools?: 'flag' | 'withhold';
};

/** The strategies of mcp-remote, by its names. */
export const transports = ['http-first', 'sse-first', 'http-only', 'sse-only'] as const;
type Transport = (typeof transports)[number];

/** A client with a secret or a key, or a workload with an assertion of its platform. */
export type ClientCredentials = OAuthSettings & { kind: 'client_credentials' };
export type PersonCredentials = OAuthSettings & { kind: 'authorization_code' };

export type Credentials =
  | { kind: 'api_key'; apiKeySecret: Secret }
  | ClientCredentials
  | PersonCredentials;

/**
 * The configuration of `connection`, as `readConnection` reads it, with `"keychain"` in place of each secret, which
 * the keychain stores. The headers named by `secretHeaders` are secrets.
 */
export function connectionEntry(
  connection: Connection,
  secretHeaders: readonly string[] = [],
): Record<string, unknown> {
  const { url, account, credentials, headers, allowTools, denyTools, changedTools, transport } =
    connection;
  const shown = Object.entries(headers ?? {}).map(([name, value]) => [
    name,
    typeof value === 'string' && !secretHeaders.includes(name) ? value : keychainWord,
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
  if (credentials.kind === 'api_key') return { apiKey: keychainWord };
  const { kind, ...settings } = credentials;
  if (Object.keys(settings).length === 0) return {};
  const secret = settings.clientSecret === undefined ? {} : { clientSecret: keychainWord };
  return { oauth: { ...settings, ...secret, grant: kind } };
}
