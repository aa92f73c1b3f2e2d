/** An MCP server to be reached as somebody. */
export type Connection = {
  /** What the user calls it. */
  name: string;
  /** Exactly as configured: it is compared and sent byte for byte. */
  url: string;
  /** The file, or whatever else, that says so. */
  source: string;
  /** The file that has to be named to find it again. */
  configFile?: string;
  /** Whose sign-in it is, where one URL is reached as several people; part of every account's key. */
  account?: string;
  credentials: Credentials;
  /** Sent with every request to the server; names in lower case. `keychain` stands for a moved value. */
  headers?: Readonly<Record<string, string>>;
  /** Which transports may be tried, and in which order; Streamable HTTP unless given. */
  transport?: Transport;
} & ToolSettings;

/** Which of the server's tools the assistant may see; all, unless a list says otherwise. */
export type ToolSettings = {
  /** Names, in which `*` stands for anything. */
  allowTools?: readonly string[];
  /** Hidden, also when they are allowed. */
  denyTools?: readonly string[];
  /** What becomes of a tool that is other than it was accepted; `flag` unless given. */
  changedTools?: 'flag' | 'withhold';
};

/** mcp-remote's strategies, by its names. */
export const transports = ['http-first', 'sse-first', 'http-only', 'sse-only'] as const;
type Transport = (typeof transports)[number];

/** What stands in a configuration for a secret that was moved to the keychain. */
export const inKeychain = 'keychain';

/** What the `oauth` object may say; all of it is optional. */
export type OAuthSettings = {
  clientId?: string;
  /** `keychain` stands for one that was moved there. */
  clientSecret?: string;
  /** A PEM file for `private_key_jwt`. */
  privateKeyFile?: string;
  /** An https URL that is the client id. */
  clientMetadataUrl?: string;
  /** The port of our redirect listener; any free one unless given. */
  redirectPort?: number;
  /** The host of our redirect URI, a name of this machine; 127.0.0.1 unless given. */
  redirectHost?: string;
  /** The path of our redirect URI; `/callback` unless given. */
  redirectPath?: string;
  /** RFC 8707's `resource` instead of what the server says; empty: none is sent. */
  resource?: string;
  /** Parameters of the authorization request besides the protocol's own. */
  authorizeParams?: Readonly<Record<string, string>>;
  scopes?: string[];
  issuer?: string;
};

export type ClientCredentials = OAuthSettings & { kind: 'client_credentials'; clientId: string };
export type PersonCredentials = OAuthSettings & { kind: 'authorization_code' };

export type Credentials =
  | { kind: 'api_key'; apiKeySecret: string }
  | ClientCredentials
  | PersonCredentials;

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
