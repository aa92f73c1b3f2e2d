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
  credentials: Credentials;
};

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
  scopes?: string[];
  issuer?: string;
};

export type ClientCredentials = OAuthSettings & { kind: 'client_credentials'; clientId: string };
export type PersonCredentials = OAuthSettings & { kind: 'authorization_code' };

export type Credentials =
  | { kind: 'api_key'; apiKeySecret: string }
  | ClientCredentials
  | PersonCredentials;
