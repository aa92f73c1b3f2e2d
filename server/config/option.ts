/** An option of a command: `--name VALUE`, or `LATCHKEY_NAME` in the environment. */
export interface Option {
  readonly name: string;
  /** The placeholder of the value in the help; flags have none. */
  readonly value?: string;
  /** May be given more than once, with one value each. */
  readonly repeated?: boolean;
  readonly required?: boolean;
  readonly fallback?: string;
  readonly doc: string;
}

export const dataDir: Option = {
  name: 'data-dir',
  value: 'DIR',
  fallback: './data',
  doc: 'where the database and the master key are',
};

export const databaseUrl: Option = {
  name: 'database-url',
  value: 'URL',
  doc: 'the PostgreSQL database that all nodes share, postgres://USER:PASSWORD@HOST:PORT/DATABASE (default: SQLite in the data directory)',
};

export const masterKeyFile: Option = {
  name: 'master-key-file',
  value: 'FILE',
  doc: 'the key that signing keys are encrypted under (default: master.key in the data directory)',
};

export const baseUrl: Option = {
  name: 'base-url',
  value: 'URL',
  fallback: 'http://127.0.0.1:8787',
  doc: 'the public URL of the server',
};

export const outboundHost: Option = {
  name: 'outbound-host',
  value: 'HOST[:PORT]',
  repeated: true,
  doc: 'a host inside this network that upstreams, webhooks and metadata may be at',
};

/** The public URL, for a command that works without it. */
export const knownBaseUrl: Option = {
  name: 'base-url',
  value: 'URL',
  doc: 'the public URL of this server, for one that introduces itself',
};

export const json: Option = { name: 'json', doc: 'print one JSON document' };

export const startOptions: readonly Option[] = [
  { name: 'host', value: 'H', fallback: '127.0.0.1', doc: 'address to listen on' },
  { name: 'port', value: 'N', fallback: '8787', doc: 'port to listen on; 0 takes a free one' },
  {
    name: 'base-url',
    value: 'URL',
    doc: 'the public URL: https, or http on loopback (default: what it listens on)',
  },
  dataDir,
  masterKeyFile,
  databaseUrl,
  {
    name: 'allow-async-standby',
    doc: 'start although the database may lose confirmed writes, revocations included, when a standby takes over',
  },
  {
    name: 'node-name',
    value: 'NAME',
    doc: 'the name of this node in lists and logs (default: the host name)',
  },
  { name: 'demo', doc: 'make the demo endpoint demo/library' },
  {
    name: 'trust-proxy',
    value: 'CIDR',
    repeated: true,
    doc: 'a proxy in front whose X-Forwarded-For counts',
  },
  {
    name: 'allowed-origin',
    value: 'URL',
    repeated: true,
    doc: 'an origin whose pages may call the MCP endpoints',
  },
  {
    name: 'oidc-issuer',
    value: 'URL',
    doc: 'an OpenID provider that people may sign in with',
  },
  { name: 'oidc-client-id', value: 'ID', doc: 'what this server is called there' },
  { name: 'oidc-client-secret-file', value: 'FILE', doc: 'where its secret there is' },
  {
    name: 'oidc-name',
    value: 'NAME',
    fallback: 'single sign-on',
    doc: 'what the provider is called on the sign-in page',
  },
  {
    name: 'oidc-groups-claim',
    value: 'CLAIM',
    fallback: 'groups',
    doc: 'the claim in which the provider lists the groups of a person',
  },
  {
    name: 'oidc-scope',
    value: 'SCOPE',
    repeated: true,
    doc: 'a scope to ask the provider for besides openid and email',
  },
  {
    name: 'dynamic-registration',
    doc: 'let any application register itself as an OAuth client (RFC 7591)',
  },
  outboundHost,
  {
    name: 'stdio-servers',
    value: 'FILE',
    doc: 'commands of this machine behind servers, as JSON; no administrator can name one',
  },
  {
    name: 'skills',
    value: 'ORG/SERVER=DIR',
    repeated: true,
    doc: 'a folder of skills (a SKILL.md in a folder each) that a server offers besides; see docs/skills.md',
  },
  {
    name: 'max-body-bytes',
    value: 'N',
    fallback: '4194304',
    doc: 'the largest message that an MCP endpoint takes',
  },
  {
    name: 'log-level',
    value: 'LEVEL',
    fallback: 'info',
    doc: 'debug, info, warn, error or silent; the log is JSON lines on stderr',
  },
];

/** The environment variable of an option: `LATCHKEY_BASE_URL` for `--base-url`. */
export function variableOf({ name }: Option): string {
  return `LATCHKEY_${name.replaceAll('-', '_').toUpperCase()}`;
}
