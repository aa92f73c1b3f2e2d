import type { Option } from '#model/option';
import { checkIntervals } from '#model/provider-checks';

export const dataDir: Option = {
  name: 'data-dir',
  value: 'DIR',
  fallback: './data',
  doc: 'the folder of the database and the master key',
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
  fallbackDoc: 'that of the server that ran last here, or else http://127.0.0.1:8787',
  doc: 'the public URL of the server',
};

export const outboundHost: Option = {
  name: 'outbound-host',
  value: 'HOST[:PORT]',
  repeated: true,
  doc: 'a host in your network that Latchkey may call for upstreams, webhooks and metadata',
};

/** The public URL, for a command that works without it. */
export const knownBaseUrl: Option = {
  name: 'base-url',
  value: 'URL',
  doc: 'the public URL of this server, for authorization servers that it registers with',
};

/** The public URL, for commands that print an endpoint. */
export const endpointBase: Option = {
  name: 'base-url',
  value: 'URL',
  doc: 'the public URL of this server, for the printed endpoint (default: that of the server that ran last here)',
};

export const dynamicRegistration: Option = {
  name: 'dynamic-registration',
  doc: 'let any application register itself as an OAuth client (RFC 7591)',
};

export const noClientDocuments: Option = {
  name: 'no-client-metadata-documents',
  doc: 'do not announce client ID metadata documents, so that applications register instead: for a server without access to the internet',
};

export const json: Option = { name: 'json', doc: 'print one JSON document' };

export const startOptions: readonly Option[] = [
  { name: 'host', value: 'HOST', fallback: '127.0.0.1', doc: 'address to listen on' },
  {
    name: 'port',
    value: 'PORT',
    fallback: '8787',
    doc: 'port to listen on, up to 65535; 0 selects a free port',
  },
  {
    name: 'base-url',
    value: 'URL',
    doc: 'the public URL: https, or http on loopback (default: the address it listens on)',
  },
  dataDir,
  masterKeyFile,
  databaseUrl,
  {
    name: 'database-connections',
    value: 'COUNT',
    fallback: '10',
    doc: 'how many connections to PostgreSQL a process opens for its queries, up to 200; it has one more for admissions',
  },
  {
    name: 'allow-async-standby',
    doc: 'start even if a standby that takes over could lose confirmed writes, including revocations',
  },
  {
    name: 'nats-url',
    value: 'URL',
    doc: 'the NATS server over which nodes pass calls to each other, nats://HOST:PORT or tls://HOST:PORT (default: this node passes none)',
  },
  {
    name: 'nats-credentials',
    value: 'FILE',
    doc: 'the credentials of a NATS user, as nsc generate creds writes them',
  },
  {
    name: 'node-name',
    value: 'NAME',
    doc: 'the name of this node in lists and logs (default: the host name)',
  },
  {
    name: 'processes',
    value: 'COUNT|auto',
    fallback: '1',
    doc: 'how many processes share the port, up to 64, or auto for one per core; on SQLite, most requests still go to the first of them',
  },
  {
    name: 'metrics-address',
    value: 'HOST:PORT',
    doc: 'serve metrics for Prometheus at http://HOST:PORT/metrics, without authentication: choose 127.0.0.1 or a private network; with several processes, each at the next port (default: off)',
  },
  {
    name: 'shutdown-delay',
    value: 'SECONDS',
    fallback: '0',
    doc: 'after SIGTERM, keep serving for this long while /readyz fails, so that load balancers stop sending calls here',
  },
  { name: 'demo', doc: 'create the demo endpoint demo/library' },
  {
    name: 'show-demo-credentials',
    doc: 'with --demo: create an OAuth client and an API key for it, and print both once',
  },
  {
    name: 'trust-proxy',
    value: 'CIDR',
    repeated: true,
    doc: 'a reverse proxy whose X-Forwarded-For header is trusted',
  },
  {
    name: 'allowed-origin',
    value: 'URL',
    repeated: true,
    doc: 'an origin whose web pages may call the MCP endpoints',
  },
  {
    name: 'oidc-issuer',
    value: 'URL',
    doc: 'the OpenID provider that people can sign in with',
  },
  { name: 'oidc-client-id', value: 'ID', doc: 'the client ID of this server at the provider' },
  {
    name: 'oidc-client-secret-file',
    value: 'FILE',
    doc: 'a file with the client secret of this server at the provider',
  },
  {
    name: 'oidc-name',
    value: 'NAME',
    fallback: 'single sign-on',
    doc: 'the name of the provider on the sign-in page',
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
    doc: 'a scope to request from the provider in addition to openid and email',
  },
  {
    name: 'oidc-trust-email',
    doc: 'trust e-mail addresses without an email_verified claim, such as those of Microsoft Entra ID; the risk is in docs/single-sign-on.md',
  },
  {
    name: 'oidc-check-again',
    value: 'WHEN',
    fallback: 'auto',
    doc: 'whether people are checked again at the provider: auto (unless it announces logouts), always or never',
  },
  {
    name: 'oidc-session-check-minutes',
    value: 'MINUTES',
    fallback: String(checkIntervals.sessionCheckMinutes.usual),
    doc: 'after how many minutes people with a session through the provider are checked again (5 to 1440)',
  },
  {
    name: 'oidc-grant-check-hours',
    value: 'HOURS',
    fallback: String(checkIntervals.grantCheckHours.usual),
    doc: 'after how many hours people are checked again for whom only applications have access (1 to 168)',
  },
  dynamicRegistration,
  noClientDocuments,
  {
    name: 'client-metadata-document',
    value: 'FILE',
    repeated: true,
    doc: 'a copy of the client ID metadata document of an application, which is then never fetched',
  },
  outboundHost,
  {
    name: 'stdio-servers',
    value: 'FILE',
    doc: 'a JSON file of local commands that serve as upstreams; administrators cannot add commands',
  },
  {
    name: 'audit-retention',
    value: 'DAYS',
    doc: 'remove entries of the audit log that are older, at least 30 days (default: keep all)',
  },
  {
    name: 'call-log',
    value: 'MODE',
    fallback: 'on',
    doc: 'on: record calls for the Activity page; required: and send none that cannot be recorded; off: record none',
  },
  {
    name: 'call-log-lists',
    doc: 'also record lists, initialize and all other requests, not only calls of tools, prompts and resources',
  },
  {
    name: 'call-log-output',
    value: 'FILE',
    doc: 'also append each recorded call to this file as a line of JSON; - is stdout, and everything else then goes to stderr; see docs/activity.md',
  },
  {
    name: 'skills',
    value: 'ORG/SERVER=DIR',
    repeated: true,
    doc: 'a folder of skills that a server also offers, each a folder with a SKILL.md; see docs/skills.md',
  },
  {
    name: 'download-folder',
    value: 'DIR',
    doc: 'a folder of executables and packages of the tray app that people can download; see docs/packages.md (default: downloads in the data directory)',
  },
  {
    name: 'max-body-bytes',
    value: 'BYTES',
    fallback: '4194304',
    doc: 'the largest message that an MCP endpoint accepts',
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
