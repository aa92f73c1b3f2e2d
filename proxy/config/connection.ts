/** An MCP server to be reached as somebody. */
export type Connection = {
  /** What the user calls it. */
  name: string;
  /** Exactly as configured: it is compared and sent byte for byte. */
  url: string;
  /** The file, or whatever else, that says so. */
  source: string;
  credentials: Credentials;
};

export type Credentials =
  | { kind: 'none' }
  | { kind: 'api_key'; apiKeySecret: string }
  | {
      kind: 'client_credentials';
      clientId: string;
      clientSecret: string;
      scopes?: string[];
      issuer?: string;
    };
